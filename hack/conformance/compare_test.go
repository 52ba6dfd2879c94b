// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"

	"github.com/managedworkload/managedworkload/hack/fakecri"
)

// What runs beside all else has no order within its moment; what belongs to the kill
// has one.
func TestLateHooksHaveNoOrder(t *testing.T) {
	failed := fakecri.Entry{T: 9, Op: "Event", Container: "a", Detail: "Warning FailedPreStopHook spec.containers{a} \"PreStopHook failed\""}
	stop := fakecri.Entry{T: 9, Op: "StopContainer", Container: "a", Detail: "timeout=2"}
	earlier := fakecri.Entry{T: 7, Op: "StopContainer", Container: "a", Detail: "timeout=2"}
	pulled := fakecri.Entry{T: 9, Op: "Event", Container: "a", Detail: "Normal Pulled spec.containers{a} \"\""}
	fallback := fakecri.Entry{T: 9, Op: "Event", Detail: "Warning LifecycleHTTPFallback  \"request to HTTPS\""}
	other := failed
	other.Container = "b"
	tests := map[string]struct {
		kubelet, shim []fakecri.Entry
		equal         bool
	}{
		"a hook that outlived its kill, and a start": {[]fakecri.Entry{earlier, pulled, failed}, []fakecri.Entry{earlier, failed, pulled}, true},
		"a hook that falls back to HTTP":             {[]fakecri.Entry{fallback, pulled}, []fakecri.Entry{pulled, fallback}, true},
		"two such hooks":                             {[]fakecri.Entry{failed, other}, []fakecri.Entry{other, failed}, true},
		"a hook that fails in time":                  {[]fakecri.Entry{failed, stop}, []fakecri.Entry{stop, failed}, false},
		"a hook that fails at another moment":        {[]fakecri.Entry{earlier, failed}, []fakecri.Entry{earlier, {T: 8, Op: "Event", Container: "a", Detail: failed.Detail}}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := compare([]step{{Trace: tt.kubelet}}, []step{{Trace: tt.shim}}, counts{})
			if (d == nil) != tt.equal {
				t.Errorf("equal: %t, want %t\n%v", d == nil, tt.equal, d)
			}
		})
	}
}
