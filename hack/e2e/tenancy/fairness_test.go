// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const shimFlows = "managedworkload-shims"

// Whoever has the token of one node's shim, and writes statuses by 60 requests at a time, makes those of
// another node take twice their time at most. Without flows of their own they take more.
func TestOneShimKeepsNoOtherWaiting(t *testing.T) {
	i := installation{namespace: "managedworkload-system"}
	i.apply(t)
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}})
	write := map[string]func(context.Context) error{}
	for _, name := range []string{"n1", "n2"} {
		node, nw := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nodeWorkload("web-"+name, name)
		create(t, node, nw)
		bound := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}
		c := acts(t, name, token(t, admin, i.namespace, i.account("shim"), bound))
		write[name] = func(ctx context.Context) error {
			o := nw.DeepCopy()
			o.Status.Summary = "x"
			return c.Status().Update(ctx, o, client.DryRunAll)
		}
		await(t, name+" may write its status", write[name])
	}
	slowStatuses(t)
	fewSeats(t)

	alone := timeOf(t, 8, write["n2"])
	flood(t, 60, write["n1"])
	await(t, "the flood waits", func(ctx context.Context) error {
		return gauge(ctx, "current_inqueue_requests", func(v float64) bool { return v >= 40 })
	})
	beside := timeOf(t, 8, write["n2"])
	t.Logf("8 statuses of a node: alone %s, beside 60 of another at a time %s", alone, beside)
	if beside > 2*alone {
		t.Errorf("beside the flood it takes %s, alone %s", beside, alone)
	}
	must(t, admin.Patch(t.Context(), &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: shimFlows}},
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"distinguisherMethod":null}}`))))
	await(t, "one flow of all shims keeps a node waiting", func(ctx context.Context) error {
		begun := time.Now()
		err := write["n2"](ctx)
		if took := time.Since(begun); took <= 2*alone/8 {
			return errors.Join(err, fmt.Errorf("it takes %s", took))
		}
		return nil
	})
}

// slowStatuses makes each status of a NodeWorkload take about a second in the API server.
func slowStatuses(t *testing.T) {
	t.Helper()
	slow := answerReviews(t, func(ctx context.Context, _ bool) (string, error) {
		select {
		case <-ctx.Done():
		case <-time.After(750*time.Millisecond + rand.N(500*time.Millisecond)):
		}
		return "", nil
	})
	create(t, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "tenancy-statuses"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "statuses.tenancy.example.com", AdmissionReviewVersions: []string{"v1"}, ClientConfig: slow,
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: ptr.To[int32](10),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"nodeworkloads/status"},
				},
			}},
		}},
	})
}

// fewSeats leaves shims ten requests at a time.
func fewSeats(t *testing.T) {
	t.Helper()
	must(t, admin.Patch(t.Context(), &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: shimFlows}},
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"limited":{"nominalConcurrencyShares":4,"lendablePercent":0,"borrowingLimitPercent":0}}}`))))
	await(t, "ten seats", func(ctx context.Context) error {
		return gauge(ctx, "current_limit_seats", func(v float64) bool { return v == 10 })
	})
}

// gauge is nil once a gauge of the shims' priority level is as it should be.
func gauge(ctx context.Context, name string, should func(float64) bool) error {
	metrics, err := stack.Kubectl(ctx, "get", "--raw", "/metrics")
	if err != nil {
		return err
	}
	var found []string
	for line := range strings.Lines(metrics) {
		if !strings.HasPrefix(line, "apiserver_flowcontrol_"+name+"{") || !strings.Contains(line, `priority_level="`+shimFlows+`"`) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
		if err == nil && should(value) {
			return nil
		}
		found = append(found, line)
	}
	return fmt.Errorf("%s: %q", name, found)
}

// timeOf is how long it takes to do something so many times.
func timeOf(t *testing.T, times int, do func(context.Context) error) time.Duration {
	t.Helper()
	begun := time.Now()
	for range times {
		must(t, do(t.Context()))
	}
	return time.Since(begun)
}

// flood does something so many times at once, all the time, until the test has ended.
func flood(t *testing.T, requests int, do func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := do(ctx); err != nil && ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond) // refused: 429 tells to wait longer
				}
			}
		})
	}
	t.Cleanup(func() { stop(); all.Wait() })
}
