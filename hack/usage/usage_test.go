// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const metrics = `# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="managedworkload.dev",resource="nodeworkloads",scope="resource",subresource="status",verb="PUT",version="v1alpha1"} 3
apiserver_request_total{code="409",component="apiserver",dry_run="",group="managedworkload.dev",resource="nodeworkloads",scope="resource",subresource="status",verb="PUT",version="v1alpha1"} 1
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="events",scope="namespace",subresource="",verb="POST",version="v1"} 1.5e+03
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="nodes",scope="cluster",subresource="",verb="LIST",version="v1"} 7
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="127.0.0.1:6443",method="PUT"} 5
rest_client_requests_total{code="201",host="127.0.0.1:6443",method="POST"} 4
rest_client_requests_total{code="409",host="127.0.0.1:6443",method="PUT"} 2
`

func TestRequests(t *testing.T) {
	got, err := Requests(metrics, "nodeworkloads", "events")
	want := map[string]float64{"PUT nodeworkloads/status": 4, "POST events": 1500}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("(-want +got), error %v:\n%s", err, diff)
	}
	got, err = ClientRequests(metrics)
	want = map[string]float64{"PUT": 5, "POST": 4, "PUT 409": 2}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("(-want +got), error %v:\n%s", err, diff)
	}
	if diff := cmp.Diff(map[string]float64{"a": 1, "c": 2}, Since(map[string]float64{"a": 1, "b": 1}, map[string]float64{"a": 2, "b": 1, "c": 2})); diff != "" {
		t.Errorf("since (-want +got):\n%s", diff)
	}
}

func TestProcess(t *testing.T) {
	now, err := Resident(os.Getpid())
	peak, peakErr := Peak(os.Getpid())
	if err != nil || peakErr != nil || now < 1<<20 || peak < now/2 {
		t.Errorf("resident %d, peak %d, errors %v, %v", now, peak, err, peakErr)
	}
	if _, err := CPUTime(os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, err := Resident(0); err == nil {
		t.Error("process 0 has a status")
	}
}
