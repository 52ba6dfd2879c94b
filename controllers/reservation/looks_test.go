// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// unbounded is a reconciler whose patches of subresources a test answers.
func unbounded(t *testing.T, answer func(client.Object, client.Patch) error) *Reconciler {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(managertest.Scheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
			return answer(o, p)
		},
	}).Build()
	always := flowcontrol.NewFakeAlwaysRateLimiter()
	shims := fleet.NewShims("system")
	return &Reconciler{
		client: c, index: fleet.NewIndex(fleet.NewLedger(shims), shims), nodes: fleet.NewNodes(), pods: newPods(),
		memos: newMemos(), timing: usual, writes: always, resizes: always,
	}
}

// While a Pod replaces another, the newer one counts, in whichever order they are seen; and when that
// is gone, the older one.
func TestNewestPodCounts(t *testing.T) {
	old, young := reservingPod("n1"), reservingPod("n1")
	old.UID, old.CreationTimestamp = "old", metav1.NewTime(time.Unix(1000, 0))
	young.UID, young.CreationTimestamp = "young", metav1.NewTime(time.Unix(2000, 0))
	for _, order := range [][]*corev1.Pod{{old, young}, {young, old}} {
		pods := newPods()
		for _, pod := range order {
			pods.Observe(pod, false)
		}
		expect := func(want types.UID, wantUsed bool) {
			t.Helper()
			pod, used := pods.On("n1")
			if pod == nil && want != "" || pod != nil && pod.UID != want || used != wantUsed {
				t.Errorf("%+v counts, want %q; used: %t", pod, want, used)
			}
		}
		expect("young", true)
		pods.Observe(young, true)
		expect("old", true)
		pods.Observe(old, true)
		expect("", false)
	}
}

// A resize that the API server refuses is asked for again after 5 min, or when another amount is
// wanted, or by another Pod. It is a resize of that very Pod: one of the same name is another.
func TestRefusedResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patches := 0
		r := unbounded(t, func(o client.Object, p client.Patch) error {
			patches++
			var body struct {
				Metadata struct{ UID types.UID }
			}
			data, err := p.Data(o)
			if err := errors.Join(err, json.Unmarshal(data, &body)); err != nil || body.Metadata.UID != types.UID("uid-of-"+o.GetName()) {
				t.Errorf("resize of the Pod with UID %q, %v", body.Metadata.UID, err)
			}
			return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errors.New("exceeded quota"))
		})
		resize := func(name string, milliCPU int64, wantPatches int, wantNext time.Duration) {
			t.Helper()
			var next earliest
			pod := Pod{Name: name, UID: types.UID("uid-of-" + name), Node: "n1", Asked: Own, Admitted: true}
			if err := r.resize(logr.NewContext(t.Context(), logr.Discard()), &pod, plus(milliCPU, 0), time.Now(), &next); err != nil {
				t.Fatal(err)
			}
			if patches != wantPatches || next.after != wantNext {
				t.Errorf("Pod %s, %dm: asked %d times, looked at again after %s; want %d, %s", name, milliCPU, patches, next.after, wantPatches, wantNext)
			}
		}
		resize("p", 100, 1, usual.settle)
		time.Sleep(time.Minute)
		resize("p", 100, 1, usual.refusal-time.Minute)
		resize("p", 200, 2, usual.settle)
		resize("q", 200, 3, usual.settle)
		time.Sleep(usual.refusal)
		resize("q", 200, 4, usual.settle)
	})
}

// What a condition says in other words is written once a minute; what it says otherwise, at once.
func TestWordsOfConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := 0
		r := unbounded(t, func(client.Object, client.Patch) error {
			written++
			return nil
		})
		share := shares(100)[0]
		share.Reserved = &fleet.Said{Status: metav1.ConditionFalse, Reason: "Deferred", Message: "1m lack"}
		say := func(reason, message string, wantWritten int) (after time.Duration) {
			t.Helper()
			var next earliest
			d := decision{said: map[types.UID]*fleet.Said{share.UID: {Status: metav1.ConditionFalse, Reason: reason, Message: message}}}
			if err := r.say(t.Context(), "n1", []*fleet.Share{share}, d, time.Now(), &next); err != nil {
				t.Fatal(err)
			}
			if written != wantWritten {
				t.Errorf("%s: %s: written %d times, want %d", reason, message, written, wantWritten)
			}
			return next.after
		}
		say("Deferred", "2m lack", 1)
		time.Sleep(20 * time.Second)
		if after := say("Deferred", "3m lack", 1); after != usual.reword-20*time.Second {
			t.Errorf("looked at again after %s", after)
		}
		say("Infeasible", "3m lack", 2)
		time.Sleep(usual.reword)
		say("Deferred", "4m lack", 3)
	})
}

// Where a shim registered the Node, no kubelet runs a Pod that reserves: none is missed there.
func TestNodeWithoutAKubelet(t *testing.T) {
	r := unbounded(t, nil)
	r.pods.Observe(reservingPod("other"), false)
	for name, by := range map[string]string{"kubelet": "", "shim": "shim"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{labelRegisteredBy: by}}}
		r.nodes.Observe(name, node)
		var next earliest
		if f := r.gather(name, time.Now(), &next); f.used != (name == "kubelet") {
			t.Errorf("node of a %s: a Pod is missed there: %t", name, f.used)
		}
	}
}

// What a node refused is remembered for a bounded number of amounts: who asks for ever other ones
// fills no memory.
func TestRefusalsAreBounded(t *testing.T) {
	now := time.Now()
	var r retries
	cpu, memory := int64(1000), int64(1)<<60
	for range 2 * maxRefusals { // none is as much as another
		r.refuse(Own.Plus(fleet.Amount{MilliCPU: cpu, Memory: memory}), "no room", Own, now)
		cpu, memory = cpu*3/2, memory*2/3
		now = now.Add(time.Second)
	}
	if len(r.refusals) != 2*maxRefusals {
		t.Fatalf("%d refusals, want %d", len(r.refusals), 2*maxRefusals)
	}
	first := r.refusals[maxRefusals]
	r.forget(now)
	if len(r.refusals) != maxRefusals || r.refusals[0] != first {
		t.Errorf("%d refusals are left, the first %+v, want %d and %+v", len(r.refusals), r.refusals[0], maxRefusals, first)
	}
}
