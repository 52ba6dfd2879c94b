// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/options"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

func newFakeAPI(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.Client {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).
		WithStatusSubresource(&v1alpha1.NodeWorkload{}, &corev1.Node{}).Build()
}

func nodeWorkload(finalizers ...string) *v1alpha1.NodeWorkload {
	return &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n", UID: "u", Finalizers: finalizers},
		Spec:       v1alpha1.NodeWorkloadSpec{NodeName: "node"},
		Status: v1alpha1.NodeWorkloadStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionShimResponding, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLeaseRenewed},
			{Type: v1alpha1.ConditionReserved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeferred},
		}},
	}
}

var identity = podworker.Identity{UID: "u", Namespace: "ns", Name: "n"}

func TestPublishKeepsTheManagersConditions(t *testing.T) {
	api := newFakeAPI(t, interceptor.Funcs{}, nodeWorkload())
	p := newPublisher(api, api, api)
	for _, summary := range []string{"Running", "Terminating"} {
		st := &v1alpha1.NodeWorkloadStatus{Summary: summary, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "PodReady"},
			{Type: v1alpha1.ConditionShimResponding, Status: metav1.ConditionUnknown, Reason: "Stale"},
		}}
		if err := p.Publish(t.Context(), identity, st); err != nil {
			t.Fatal(err)
		}
		got := &v1alpha1.NodeWorkload{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "n"}, got); err != nil {
			t.Fatal(err)
		}
		if got.Status.Summary != summary || got.Spec.NodeName != "node" {
			t.Errorf("summary %q, node %q", got.Status.Summary, got.Spec.NodeName)
		}
		for kind, want := range map[string]string{
			v1alpha1.ConditionShimResponding: v1alpha1.ReasonLeaseRenewed, v1alpha1.ConditionReserved: v1alpha1.ReasonDeferred,
		} {
			if c := meta.FindStatusCondition(got.Status.Conditions, kind); c == nil || c.Reason != want {
				t.Errorf("%s is %+v, want reason %s", kind, c, want)
			}
		}
	}
}

func TestPublishAfterConflict(t *testing.T) {
	conflicts, writes := 2, 0
	api := newFakeAPI(t, interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			if conflicts--; conflicts >= 0 {
				return apierrors.NewConflict(schema.GroupResource{Resource: "nodeworkloads"}, "n", errors.New("changed"))
			}
			writes++
			return c.SubResource(sub).Update(ctx, obj, opts...)
		},
	}, nodeWorkload())
	p := newPublisher(api, api, api)
	st := &v1alpha1.NodeWorkloadStatus{Summary: "Running"}
	for range 2 {
		if err := p.Publish(t.Context(), identity, st); err != nil {
			t.Fatal(err)
		}
	}
	if writes != 1 {
		t.Errorf("%d writes of one status", writes)
	}
}

func TestPublishWithoutObject(t *testing.T) {
	other := nodeWorkload()
	other.UID = "another"
	tests := map[string][]client.Object{"no object": nil, "an object of another UID": {other}}
	for name, objects := range tests {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, interceptor.Funcs{}, objects...)
			p := newPublisher(api, api, api)
			if err := p.Publish(t.Context(), identity, &v1alpha1.NodeWorkloadStatus{Summary: "Running"}); !errors.Is(err, podworker.ErrGone) {
				t.Errorf("publish: %v, want ErrGone", err)
			}
			if err := p.Release(t.Context(), identity); !errors.Is(err, podworker.ErrGone) {
				t.Errorf("release: %v, want ErrGone", err)
			}
		})
	}
}

func TestReleaseLeavesOtherFinalizers(t *testing.T) {
	nw := nodeWorkload("example.com/theirs", v1alpha1.Finalizer)
	nw.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	api := newFakeAPI(t, interceptor.Funcs{}, nw)
	p := newPublisher(api, api, api)
	for range 2 {
		if err := p.Release(t.Context(), identity); err != nil {
			t.Fatal(err)
		}
	}
	got := &v1alpha1.NodeWorkload{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "n"}, got); err != nil || !slices.Equal(got.Finalizers, []string{"example.com/theirs"}) {
		t.Errorf("finalizers %q, error %v", got.Finalizers, err)
	}
}

// Beside a kubelet, profiles are those of its folder.
func TestSeccompRoot(t *testing.T) {
	tests := map[string]struct {
		options Options
		want    string
	}{
		"beside a kubelet":  {Options{StateDir: "/state"}, "/var/lib/kubelet/seccomp"},
		"without a kubelet": {Options{StateDir: "/state", RegisterNode: true}, "/state/seccomp"},
		"given":             {Options{StateDir: "/state", SeccompRoot: "/profiles"}, "/profiles"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.options.seccompDir(); got != tt.want {
				t.Errorf("profiles in %s, want %s", got, tt.want)
			}
		})
	}
}

func TestRegisterNode(t *testing.T) {
	api := newFakeAPI(t, interceptor.Funcs{})
	n := &node{api: api, name: "node", ips: []string{"192.0.2.1"}, runtime: func() string { return "containerd://2" }}
	if err := n.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := &corev1.Node{}
	key := client.ObjectKey{Name: "node"}
	if err := api.Get(t.Context(), key, got); err != nil {
		t.Fatal(err)
	}
	ready := nodeCondition(got, corev1.NodeReady)
	if ready == nil || ready.Status != corev1.ConditionTrue || got.Labels[corev1.LabelHostname] != "node" || got.Status.Addresses[0].Address != "192.0.2.1" {
		t.Errorf("condition %+v, labels %v, addresses %v", ready, got.Labels, got.Status.Addresses)
	}
	got.Spec.Taints = []corev1.Taint{notReady}
	delete(got.Labels, corev1.LabelOSStable)
	if err := api.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if err := n.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), key, got); err != nil || len(got.Spec.Taints) != 1 || !got.Spec.Taints[0].MatchTaint(&noPods) {
		t.Errorf("taints %v, error %v, want the one that keeps Pods away", got.Spec.Taints, err)
	}
	if got.Labels[corev1.LabelOSStable] != "linux" {
		t.Errorf("labels %v, want the operating system's put back", got.Labels)
	}
}

// A Node that another program keeps is never touched.
func TestRegisterNodeBesideKubelet(t *testing.T) {
	api := newFakeAPI(t, interceptor.Funcs{}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}})
	n := &node{api: api, name: "node", runtime: func() string { return "" }}
	if err := n.register(t.Context()); !errors.Is(err, errForeignNode) {
		t.Errorf("register: %v", err)
	}
	got := &corev1.Node{}
	if err := api.Get(t.Context(), client.ObjectKey{Name: "node"}, got); err != nil || len(got.Spec.Taints)+len(got.Status.Conditions) != 0 {
		t.Errorf("the Node was changed: %+v, error %v", got, err)
	}
}

// A lease that was deleted, or is another's for a moment, is renewed all along.
func TestLease(t *testing.T) {
	api := newFakeAPI(t, interceptor.Funcs{})
	l := shimLease(api, nil, Options{NodeName: "node", Shared: options.Shared{Namespace: "system"}})
	inAPI := func() *coordinationv1.Lease {
		t.Helper()
		got := &coordinationv1.Lease{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "system", Name: "managedworkload-shim-node"}, got); err != nil {
			t.Fatalf("after %s: %v", t.Name(), err)
		}
		return got
	}
	renew := func() {
		t.Helper()
		if err := l.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := inAPI()
		if *got.Spec.HolderIdentity != "node" || *got.Spec.LeaseDurationSeconds != leaseDurationSeconds || time.Since(got.Spec.RenewTime.Time) > time.Minute {
			t.Errorf("lease %+v", got.Spec)
		}
	}
	renew()
	renew()
	for range 2 {
		if err := api.Delete(t.Context(), inAPI()); err != nil {
			t.Fatal(err)
		}
		renew()
	}
	changed := inAPI()
	changed.Spec.HolderIdentity, changed.Spec.RenewTime = ptr.To("another"), &metav1.MicroTime{}
	if err := api.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	renew()
}

// A Node that was marked NotReady, or Unknown by the node lifecycle controller, is
// corrected at the next look; one that is ready has its heartbeat each minute, by
// the time of the process, also when the wall clock was set back.
func TestNodeHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offset time.Duration
		writes := 0
		api := newFakeAPI(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		}})
		n := &node{
			api: api, name: "node", ips: []string{"192.0.2.1"}, runtime: func() string { return "" },
			clock: clock.New(clock.Config{Offset: func() time.Duration { return offset }}),
		}
		look := func(wantWrites int) {
			t.Helper()
			writes = 0
			if err := n.register(t.Context()); err != nil || writes != wantWrites {
				t.Errorf("%d writes, error %v, want %d", writes, err, wantWrites)
			}
		}
		look(1)
		time.Sleep(nodeInterval)
		look(0)
		for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
			got := &corev1.Node{}
			if err := api.Get(t.Context(), client.ObjectKey{Name: "node"}, got); err != nil {
				t.Fatal(err)
			}
			nodeCondition(got, corev1.NodeReady).Status = status
			if err := api.Status().Update(t.Context(), got); err != nil {
				t.Fatal(err)
			}
			look(1)
			if err := api.Get(t.Context(), client.ObjectKey{Name: "node"}, got); err != nil || nodeCondition(got, corev1.NodeReady).Status != corev1.ConditionTrue {
				t.Errorf("a Node with Ready=%s was not corrected: error %v", status, err)
			}
		}
		offset = -time.Hour
		time.Sleep(heartbeatInterval)
		look(1)
		time.Sleep(nodeInterval)
		look(0)
	})
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockState(dir); err == nil || !strings.Contains(err.Error(), "one shim per node") {
		t.Errorf("second lock: %v", err)
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	again, err := lockState(dir)
	if err != nil {
		t.Fatalf("lock after the release: %v", err)
	}
	if err := again.release(); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	valid := Options{Shared: options.Shared{Namespace: "system"}, NodeName: "node", StateDir: "/state", PodLogDir: "/logs"}
	valid.addFlags(pflag.NewFlagSet("shim", pflag.ContinueOnError)) // those about disks have defaults
	tests := map[string]struct {
		change func(*Options)
		want   string
	}{
		"valid":         {func(*Options) {}, ""},
		"no node":       {func(o *Options) { o.NodeName = "" }, "--node-name"},
		"a long node":   {func(o *Options) { o.NodeName = strings.Repeat("n", 233) }, "at most 232 characters"},
		"relative path": {func(o *Options) { o.StateDir = "state" }, "--state-dir"},
		"no address":    {func(o *Options) { o.NodeIPs = []string{"localhost"} }, "localhost"},
		"no namespace":  {func(o *Options) { o.Namespace = "" }, "--namespace"},
		"no DNS server": {func(o *Options) { o.ClusterDNS = []string{"dns"} }, "dns"},

		"bounds":           {func(o *Options) { o.MaxCPU, o.MaxMemory, o.MaxPids, o.PodMaxPids = "500m", "4Gi", 100, 50 }, ""},
		"bounds of 0":      {func(o *Options) { o.MaxCPU, o.MaxMemory = "0", "0Gi" }, ""},
		"no quantity":      {func(o *Options) { o.MaxCPU = "two" }, "--max-cpu"},
		"negative CPU":     {func(o *Options) { o.MaxCPU = "-1" }, "--max-cpu"},
		"too little CPU":   {func(o *Options) { o.MaxCPU = "5m" }, "--max-cpu"},
		"too much CPU":     {func(o *Options) { o.MaxCPU = "1E" }, "--max-cpu"},
		"no unit":          {func(o *Options) { o.MaxMemory = "4" }, "--max-memory"},
		"another unit":     {func(o *Options) { o.MaxMemory = "4GB" }, "--max-memory"},
		"negative pids":    {func(o *Options) { o.MaxPids = -1 }, "--max-pids"},
		"too many pids":    {func(o *Options) { o.MaxPids = 1<<22 + 1 }, "--max-pids"},
		"negative of pods": {func(o *Options) { o.PodMaxPids = -1 }, "--pod-max-pids"},

		"rotation off":         {func(o *Options) { o.LogMaxSize = "-1" }, ""},
		"no size of logs":      {func(o *Options) { o.LogMaxSize = "ten" }, "--container-log-max-size"},
		"logs of no size":      {func(o *Options) { o.LogMaxSize = "0" }, "--container-log-max-size"},
		"one file of a log":    {func(o *Options) { o.LogMaxFiles = 1 }, "--container-log-max-files"},
		"no links":             {func(o *Options) { o.LogLinks = "" }, ""},
		"relative links":       {func(o *Options) { o.LogLinks = "containers" }, "--container-log-link-dir"},
		"high above 100":       {func(o *Options) { o.Images.HighPercent = 101 }, "--image-gc-high-threshold"},
		"low below 0":          {func(o *Options) { o.Images.LowPercent = -1 }, "--image-gc-low-threshold"},
		"low above high":       {func(o *Options) { o.Images.LowPercent = 90 }, "--image-gc-low-threshold=90"},
		"no collection":        {func(o *Options) { o.Images.HighPercent = 100 }, ""},
		"images of a negative": {func(o *Options) { o.Images.MinAge = -1 }, "--minimum-image-ttl-duration"},
		"age below the least":  {func(o *Options) { o.Images.MaxAge = time.Minute }, "--image-maximum-gc-age"},

		"a wait below nothing": {func(o *Options) { o.MinRestartBackoff = -time.Second }, "--min-restart-backoff"},
		"a wait above 5m":      {func(o *Options) { o.MinRestartBackoff = 301 * time.Second }, "--min-restart-backoff"},
		"no minimum of a wait": {func(o *Options) { o.MinRestartBackoff = 0 }, ""},

		"API server":                   {func(o *Options) { o.APIServerHost, o.APIServerPort = "api.example.com", "6443" }, ""},
		"API server without its host":  {func(o *Options) { o.APIServerPort = "6443" }, "--api-server-port is given without --api-server-host"},
		"API server at no host":        {func(o *Options) { o.APIServerHost = "https://10.0.0.1" }, "--api-server-host"},
		"API server at a port of zero": {func(o *Options) { o.APIServerHost, o.APIServerPort = "10.0.0.1", "0" }, "--api-server-port"},
		"API server at no port":        {func(o *Options) { o.APIServerHost, o.APIServerPort = "10.0.0.1", "https" }, "--api-server-port"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := valid
			tt.change(&o)
			err := o.complete()
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
			if err == nil && len(o.NodeIPs) == 0 {
				t.Error("no address was found")
			}
		})
	}
}

func TestWhereTheAPIServerIs(t *testing.T) {
	tests := map[string]struct {
		envHost, envPort, host, port, wantHost, wantPort string
	}{
		"nothing is known":            {},
		"the shim's own":              {envHost: "10.96.0.1", envPort: "443", wantHost: "10.96.0.1", wantPort: "443"},
		"the shim's own, no port":     {envHost: "10.96.0.1", wantHost: "10.96.0.1", wantPort: "443"},
		"what is given":               {envHost: "10.96.0.1", envPort: "443", host: "api", port: "6443", wantHost: "api", wantPort: "6443"},
		"not the port of another one": {envHost: "10.96.0.1", envPort: "8443", host: "api", wantHost: "api", wantPort: "443"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv(envServiceHost, tt.envHost)
			t.Setenv(envServicePort, tt.envPort)
			o := Options{APIServerHost: tt.host, APIServerPort: tt.port}
			if err := o.completeAPIServer(); err != nil || o.APIServerHost != tt.wantHost || o.APIServerPort != tt.wantPort {
				t.Errorf("%s, %s, %v", o.APIServerHost, o.APIServerPort, err)
			}
		})
	}
}
