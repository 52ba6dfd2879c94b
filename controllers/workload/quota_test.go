// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// teamQuota is a quota of one core, whose use by Pods its status tells.
func teamQuota(used string) *corev1.ResourceQuota {
	hard := corev1.ResourceList{"requests.cpu": resource.MustParse("1"), "count/nodeworkloads.managedworkload.dev": resource.MustParse("100")}
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "team"},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
		Status:     corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{"requests.cpu": resource.MustParse(used)}},
	}
}

func requestsCPU(amount string) func(*v1alpha1.ManagedWorkloadSpec) {
	return func(spec *v1alpha1.ManagedWorkloadSpec) {
		spec.Template = *spec.Template.DeepCopy()
		spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(amount)}
	}
}

// inQuota is a workload named web of 300m on nodes n1 to n5, which was not looked at yet, and
// another one.
func inQuota(t *testing.T, quota *corev1.ResourceQuota, funcs interceptor.Funcs) *bench {
	t.Helper()
	web := workloadInMemory()
	requestsCPU("300m")(&web.Spec)
	other := web.DeepCopy()
	other.Name, other.UID = "other", "other"
	objects := []client.Object{web, other, quota}
	for i := range 5 {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i+1)}})
	}
	return newBench(t, funcs, objects...)
}

// requested is what the NodeWorkloads that are there request, one after the other.
func (b *bench) requested() string {
	b.t.Helper()
	list := &v1alpha1.NodeWorkloadList{}
	if err := b.client.List(b.t.Context(), list); err != nil {
		b.t.Fatal(err)
	}
	amounts := map[string]int{}
	for i := range list.Items {
		amounts[list.Items[i].Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String()]++
	}
	return fmt.Sprint(amounts)
}

// setQuota changes the quota and what its status says.
func (b *bench) setQuota(edit func(*corev1.ResourceQuota)) {
	b.t.Helper()
	quota := teamQuota("0")
	if err := b.client.Get(b.t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil {
		b.t.Fatal(err)
	}
	edit(quota)
	if err := b.client.Update(b.t.Context(), quota); err != nil {
		b.t.Fatal(err)
	}
}

func hardCPU(amount string) func(*corev1.ResourceQuota) {
	return func(q *corev1.ResourceQuota) {
		q.Spec.Hard["requests.cpu"], q.Status.Hard["requests.cpu"] = resource.MustParse(amount), resource.MustParse(amount)
	}
}

// As many nodes get a NodeWorkload as the quota has room for; the others wait, a condition and
// an event say for what, and they get theirs when the quota is raised.
func TestQuotaIsNotPassed(t *testing.T) {
	t.Parallel()
	b := inQuota(t, teamQuota("0"), interceptor.Funcs{})
	b.turn()
	b.turn()
	res, mw, err := b.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.requested(), "map[300m:3]"; got != want {
		t.Errorf("NodeWorkloads %s, want %s", got, want)
	}
	words := "exceeded quota: team, requested: requests.cpu=300m, used: requests.cpu=900m, limited: requests.cpu=1"
	text := message(mw, v1alpha1.ConditionReady)
	for _, part := range []string{"2 nodes wait (QuotaExceeded, since ", words} {
		if !strings.Contains(text, part) {
			t.Errorf("Ready says %q, which lacks %q", text, part)
		}
	}
	if events := b.drain("QuotaExceeded"); len(events) != 1 || !strings.Contains(events[0], words) {
		t.Errorf("events %q, want one that says %q", events, words)
	}
	if res.RequeueAfter == 0 || res.RequeueAfter > time.Minute {
		t.Errorf("the next look is after %s", res.RequeueAfter)
	}
	b.setQuota(hardCPU("1500m"))
	b.turn()
	b.turn()
	if mw := b.turn(); b.requested() != "map[300m:5]" || mw.Status.Summary != "ready" {
		t.Errorf("after the quota was raised: NodeWorkloads %s, summary %q", b.requested(), mw.Status.Summary)
	}
}

// What Pods use is not there for NodeWorkloads, and what nobody has computed yet neither.
func TestQuotaThatPodsUse(t *testing.T) {
	t.Parallel()
	unknown := teamQuota("0")
	unknown.Status = corev1.ResourceQuotaStatus{}
	for name, tt := range map[string]struct {
		quota *corev1.ResourceQuota
		want  string
	}{
		"half of it":   {teamQuota("500m"), "map[300m:1]"},
		"all of it":    {teamQuota("1"), "map[]"},
		"not computed": {unknown, "map[]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := inQuota(t, tt.quota, interceptor.Funcs{})
			b.turn()
			b.turn()
			if got := b.requested(); got != tt.want {
				t.Errorf("NodeWorkloads %s, want %s", got, tt.want)
			}
		})
	}
}

// A workload that is looked at while another one's NodeWorkloads are being created does not
// get the same room.
func TestQuotaOfTwoWorkloads(t *testing.T) {
	t.Parallel()
	var b *bench
	asked := false
	b = inQuota(t, teamQuota("0"), interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if nw, is := obj.(*v1alpha1.NodeWorkload); is && !asked && strings.HasPrefix(nw.Name, "web") {
			asked = true
			for range 3 {
				if _, err := b.Reconciler.Reconcile(ctx, request("default", "other")); err != nil {
					t.Error(err)
				}
			}
		}
		return c.Create(ctx, obj, opts...)
	}})
	b.turn()
	b.turn()
	if got, want := b.requested(), "map[300m:3]"; !asked || got != want {
		t.Errorf("NodeWorkloads %s, want %s", got, want)
	}
}

// An update that grows reaches as many nodes as there is room for. The others keep what they
// have and run, and nothing ends.
func TestQuotaOfAnUpdate(t *testing.T) {
	t.Parallel()
	b := inQuota(t, teamQuota("0"), interceptor.Funcs{Patch: countingGenerations, Delete: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.DeleteOption) error {
		t.Errorf("%s is deleted", obj.GetName())
		return nil
	}})
	b.turn()
	b.turn()
	b.change(requestsCPU("390m"))
	for range 5 {
		b.turn()
	}
	if got, want := b.requested(), "map[300m:2 390m:1]"; got != want {
		t.Errorf("NodeWorkloads %s, want %s", got, want)
	}
	if text := message(b.workload(), v1alpha1.ConditionReady); !strings.Contains(text, "3 nodes wait (QuotaExceeded, since ") {
		t.Errorf("Ready says %q", text)
	}
}

// A template that fits everywhere reaches the nodes that run the larger one, although those that
// wait for the quota are not available, and then these.
func TestQuotaAndASmallerTemplate(t *testing.T) {
	t.Parallel()
	b := inQuota(t, teamQuota("0"), interceptor.Funcs{Patch: countingGenerations})
	b.turn()
	b.turn()
	b.change(func(spec *v1alpha1.ManagedWorkloadSpec) {
		requestsCPU("200m")(spec)
		spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: new(intstr.FromInt32(1))}}
	})
	for range 8 {
		b.turn()
	}
	if got, want := b.requested(), "map[200m:5]"; got != want {
		t.Errorf("NodeWorkloads %s, want %s", got, want)
	}
}

// countingGenerations patches as an API server that counts the generations of NodeWorkloads.
func countingGenerations(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
	if err := c.Patch(ctx, obj, p, opts...); err != nil {
		return err
	}
	if nw, isShare := obj.(*v1alpha1.NodeWorkload); isShare && p.Type() == types.JSONPatchType {
		nw.Generation++
		return c.Update(ctx, nw)
	}
	return nil
}
