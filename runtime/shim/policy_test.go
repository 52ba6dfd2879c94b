// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// The policies are asked about hourly, and every 10 s while they are not enforced. An
// answer holds until the next one.
func TestPolicyProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer error
		asked := 0
		api := newFakeAPI(t, interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, _ client.Object, _ client.Patch, opts ...client.PatchOption) error {
			options := (&client.PatchOptions{}).ApplyOptions(opts)
			if len(options.DryRun) != 1 {
				t.Error("a change is asked for and not a dry run of it")
			}
			asked++
			return answer
		}})
		p := &policyProbe{api: api}
		resource := schema.GroupResource{Group: "managedworkload.dev", Resource: "nodeworkloads"}
		forbidden := apierrors.NewForbidden(resource, "n", errors.New("ValidatingAdmissionPolicy 'p' with binding 'p' denied request: "+byPolicy+"; change the ManagedWorkload"))
		byRBAC := apierrors.NewForbidden(resource, "n", errors.New("User \"shim\" cannot patch resource"))
		look := func(after time.Duration, now error, wantAsked int, wantProblem bool) {
			t.Helper()
			time.Sleep(after)
			answer, asked = now, 0
			if got := p.ask(t.Context(), nodeWorkload()); asked != wantAsked || (got != "") != wantProblem || got != p.known() {
				t.Errorf("asked %d times, problem %q, known %q", asked, got, p.known())
			}
		}
		look(0, errors.New("no answer"), 1, false)
		if p.asked() {
			t.Error("no answer counts as one")
		}
		look(9*time.Second, forbidden, 0, false)
		look(time.Second, apierrors.NewNotFound(resource, "n"), 1, false)
		look(0, apierrors.NewForbidden(resource, "n", errors.New("ValidatingAdmissionPolicy 'another' denied request: no")), 1, false)
		time.Sleep(policyRetry - time.Second)
		look(time.Second, byRBAC, 1, false)
		if p.asked() {
			t.Error("a refusal for another reason counts as one by the policy")
		}
		look(policyRetry, forbidden, 1, false)
		if !p.asked() {
			t.Error("an answer does not count")
		}
		look(59*time.Minute, nil, 0, false)
		look(time.Minute, nil, 1, true)
		look(9*time.Second, forbidden, 0, true)
		look(time.Second, errors.New("no answer"), 1, true)
		look(policyRetry, forbidden, 1, false)
	})
}

// The probe knows the policy by the words that config/policy has.
func TestPolicyProbeKnowsTheWords(t *testing.T) {
	policy, err := os.ReadFile("../../config/policy/nodeworkloads.yaml")
	if err != nil || !strings.Contains(string(policy), "message: "+byPolicy) {
		t.Errorf("no message %q in config/policy, error %v", byPolicy, err)
	}
}

// While the policies are not enforced nothing new of the API server's is started, and they are asked
// about again soon. What comes from files is not theirs to protect.
func TestNothingStartsWithoutPolicies(t *testing.T) {
	pool := &fakeWorkers{}
	o := overseerOf(newKeeper(t, 0, nodeWorkload()), &fakeCRI{events: true}, pool)
	o.look(t.Context())
	if next := o.check.ask(t.Context(), <-o.check.lists); next != relistForeign || pool.current().OK || pool.current().Reason != v1alpha1.ReasonPolicyNotEnforced {
		t.Errorf("usable %+v, asked again after %s", pool.current(), next)
	}
	if o.look(t.Context()); pool.current().OK || !pool.currentStatic().OK {
		t.Errorf("at the next look: usable %+v, by static workloads %+v", pool.current(), pool.currentStatic())
	}
}
