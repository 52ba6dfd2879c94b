// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/options"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// What the flags of a shutdown mean, and what is refused with the name of the flag.
func TestShutdownFlags(t *testing.T) {
	const critical = 2_000_000_000
	tests := map[string]struct {
		args, wantError string
		want            []plan.ShutdownPeriod
	}{
		"off":                  {},
		"all":                  {args: "--shutdown-grace-period=60s", want: []plan.ShutdownPeriod{{Seconds: 60}, {Priority: critical}}},
		"critical ones":        {args: "--shutdown-grace-period=1m --shutdown-grace-period-critical-pods=20s", want: []plan.ShutdownPeriod{{Seconds: 40}, {Priority: critical, Seconds: 20}}},
		"by priority":          {args: "--shutdown-grace-period-by-pod-priority=1000=10s,-5=1m", want: []plan.ShutdownPeriod{{Priority: 1000, Seconds: 10}, {Priority: -5, Seconds: 60}}},
		"both":                 {args: "--shutdown-grace-period=60s --shutdown-grace-period-by-pod-priority=0=1s", wantError: "--shutdown-grace-period-by-pod-priority and --shutdown-grace-period"},
		"more than all":        {args: "--shutdown-grace-period=5s --shutdown-grace-period-critical-pods=6s", wantError: "--shutdown-grace-period-critical-pods (6s) is longer"},
		"a part of a second":   {args: "--shutdown-grace-period=500ms", wantError: "--shutdown-grace-period: 500ms"},
		"negative":             {args: "--shutdown-grace-period=-2s --shutdown-grace-period-critical-pods=-2s", wantError: "--shutdown-grace-period: -2s"},
		"endless":              {args: "--shutdown-grace-period=100h", wantError: "--shutdown-grace-period: 100h"},
		"no period":            {args: "--shutdown-grace-period-by-pod-priority=1000", wantError: `"1000" is not PRIORITY=PERIOD`},
		"a priority too large": {args: "--shutdown-grace-period-by-pod-priority=3000000000=1s", wantError: "is not PRIORITY=PERIOD"},
		"twice":                {args: "--shutdown-grace-period-by-pod-priority=0=1s,0=2s", wantError: "the priority 0 twice"},
		"no time":              {args: "--shutdown-grace-period-by-pod-priority=0=0s", wantError: "no time at all"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := Options{}
			flags := pflag.NewFlagSet("shim", pflag.ContinueOnError)
			o.AddFlags(flags)
			if err := flags.Parse(strings.Fields(tt.args)); err != nil {
				t.Fatal(err)
			}
			err := o.completeShutdown()
			if tt.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantError) {
					t.Errorf("error %v, want %q", err, tt.wantError)
				}
				return
			}
			if diff := cmp.Diff(tt.want, o.shutdown); err != nil || diff != "" {
				t.Errorf("error %v; periods (-want +got):\n%s", err, diff)
			}
		})
	}
}

// The Node says at once that it shuts down, and is ready again when it does not.
func TestNodeThatShutsDown(t *testing.T) {
	api := newFakeAPI(t, interceptor.Funcs{})
	down := false
	n := &node{api: api, name: "node", ips: []string{"192.0.2.1"}, runtime: func() string { return "" }, shutsDown: func() bool { return down }}
	for _, want := range []corev1.NodeCondition{
		{Status: corev1.ConditionTrue, Message: "the shim runs; there is no kubelet"},
		{Status: corev1.ConditionFalse, Message: "node is shutting down"},
		{Status: corev1.ConditionTrue, Message: "the shim runs; there is no kubelet"},
	} {
		down = want.Status == corev1.ConditionFalse
		if err := n.register(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := &corev1.Node{}
		if err := api.Get(t.Context(), client.ObjectKey{Name: "node"}, got); err != nil {
			t.Fatal(err)
		}
		if ready := nodeCondition(got, corev1.NodeReady); ready.Status != want.Status || ready.Message != want.Message {
			t.Errorf("Ready: %+v, want %s: %s", ready, want.Status, want.Message)
		}
	}
}

// The shim's Lease says until when a shutdown takes; what an earlier process said is removed,
// and the Lease of a Node is left alone.
func TestLeaseOfANodeThatShutsDown(t *testing.T) {
	api := newFakeAPI(t, interceptor.Funcs{})
	o := Options{NodeName: "node", Shared: options.Shared{Namespace: "system"}}
	const annotation = "managedworkload.dev/shutdown-until"
	until := time.Date(2100, 3, 14, 9, 26, 53, 0, time.UTC)
	says := func(l *lease) string {
		t.Helper()
		if err := l.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := &coordinationv1.Lease{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: l.namespace, Name: l.name}, got); err != nil {
			t.Fatal(err)
		}
		return got.Annotations[annotation]
	}
	l := shimLease(api, nil, o)
	if got := says(l); got != "" {
		t.Errorf("before a shutdown the lease says %q", got)
	}
	l.setShutdown(until)
	if got := says(l); got != "2100-03-14T09:26:53Z" {
		t.Errorf("during a shutdown the lease says %q", got)
	}
	l.setShutdown(time.Now())
	if at, err := time.Parse(time.RFC3339, says(l)); err != nil || time.Until(at) < 30*time.Second {
		t.Errorf("a shutdown that takes longer: until %v, error %v, want later than the renewal", at, err)
	}
	if got := says(shimLease(api, nil, o)); got != "" {
		t.Errorf("the next process leaves %q", got)
	}
	l.setShutdown(time.Time{})
	if got := says(l); got != "" {
		t.Errorf("after a cancelled shutdown the lease says %q", got)
	}
	nodes := nodeLease(api, nil, o)
	nodes.setShutdown(until)
	if got := says(nodes); got != "" {
		t.Errorf("the Node's lease says %q", got)
	}
}
