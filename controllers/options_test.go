// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/options"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/subresources"
	"github.com/managedworkload/managedworkload/controllers/webhook"
)

func TestOptions(t *testing.T) {
	served := webhook.Options{
		BindAddress: ":9443", Name: "managedworkload-webhook", CertificateDir: "/run/managedworkload/webhook", RotateCertificates: true,
	}
	aggregated := subresources.Options{Name: "managedworkload-subresources", CertificateDir: "/run/managedworkload/subresources", RotateCertificates: true}
	unreachable := aggregated
	unreachable.BindAddress = "9444"
	elsewhere := served
	elsewhere.BindAddress = "webhook"
	named := served
	named.ClientNames = []string{"x"}
	shared := options.Shared{MetricsBindAddress: ":8080", HealthProbeBindAddress: ":8081", Namespace: "managedworkload-system"}
	tests := map[string]struct {
		args      []string
		want      Options
		wantError bool
	}{
		"defaults": {want: Options{Shared: shared, Reserve: true, Load: DefaultLoad, Webhook: served, Subresources: aggregated}},
		"no port":  {args: []string{"--webhook-bind-address=webhook"}, want: Options{Shared: shared, Reserve: true, Load: DefaultLoad, Webhook: elsewhere, Subresources: aggregated}, wantError: true},
		"no port of the aggregated API": {
			args:      []string{"--subresources-bind-address=9444"},
			want:      Options{Shared: shared, Reserve: true, Load: DefaultLoad, Webhook: served, Subresources: unreachable},
			wantError: true,
		},
		"all set": {
			args: []string{"--kubeconfig=k", "--metrics-bind-address=0", "--health-probe-bind-address=:1", "--leader-elect", "--namespace=n",
				"--webhook-bind-address=0", "--webhook-name=w", "--webhook-certificate-dir=d", "--webhook-rotate-certificates=false",
				"--webhook-client-ca-file=c", "--webhook-client-names=x,y",
				"--subresources-bind-address=:9444", "--subresources-name=s", "--subresources-certificate-dir=e", "--subresources-rotate-certificates=false",
				"--reserve=false", "--kube-api-qps=7.5", "--kube-api-burst=8", "--concurrent-reconciles=9"},
			want: Options{Shared: options.Shared{Kubeconfig: "k", MetricsBindAddress: "0", HealthProbeBindAddress: ":1", Namespace: "n"}, LeaderElect: true, Load: Load{7.5, 8, 9}, Webhook: webhook.Options{BindAddress: "0", Name: "w", CertificateDir: "d", ClientCAFile: "c", ClientNames: []string{"x", "y"}},
				Subresources: subresources.Options{BindAddress: ":9444", Name: "s", CertificateDir: "e"}},
		},
		"names without their authority": {
			args: []string{"--webhook-client-names=x"}, wantError: true,
			want: Options{Shared: shared, Reserve: true, Load: DefaultLoad, Webhook: named, Subresources: aggregated},
		},
		"no namespace": {args: []string{"--namespace="}, want: Options{Shared: options.Shared{MetricsBindAddress: ":8080", HealthProbeBindAddress: ":8081"}, Reserve: true, Load: DefaultLoad, Webhook: served, Subresources: aggregated}, wantError: true},
		"no load":      {args: []string{"--kube-api-qps=0", "--kube-api-burst=0", "--concurrent-reconciles=-1"}, want: Options{Shared: shared, Reserve: true, Load: Load{0, 0, -1}, Webhook: served, Subresources: aggregated}, wantError: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got Options
			fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
			got.AddFlags(fs)
			if err := fs.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
			if err := got.Validate(); (err != nil) != tc.wantError {
				t.Errorf("Validate: %v", err)
			}
		})
	}
}

func TestRunNeedsAnAPIServer(t *testing.T) {
	err := Run(t.Context(), Options{Shared: options.Shared{Kubeconfig: filepath.Join(t.TempDir(), "missing"), Namespace: "n", MetricsBindAddress: "0", HealthProbeBindAddress: "0"}})
	if err == nil {
		t.Error("ran without an API server")
	}
}

// Run serves its health and its metrics, elects a leader, and ends when asked to.
// (It does not run in parallel: its manager acts beside the suite's.)
func TestRun(t *testing.T) {
	if api == nil {
		t.Skip(whyNoAPI)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, apiKubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{LeaderElect: true, Reserve: true, Load: DefaultLoad, Shared: options.Shared{
		Kubeconfig: kubeconfig, Namespace: v1alpha1.DefaultNamespace,
		MetricsBindAddress: freeAddress(t), HealthProbeBindAddress: freeAddress(t),
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		defer cancel() // ends the waits below if it cannot start
		done <- Run(ctx, o)
	}()
	for _, url := range []string{
		"http://" + o.HealthProbeBindAddress + "/healthz",
		"http://" + o.HealthProbeBindAddress + "/readyz",
		"http://" + o.MetricsBindAddress + "/metrics",
	} {
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			return answers(ctx, url)
		})
		if err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	lease := &coordinationv1.Lease{}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: leaderElectionID}, lease)
		return err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") != "", client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Errorf("no leader was elected: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func answers(ctx context.Context, url string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, nil //nolint:nilerr // it does not listen yet
	}
	return resp.StatusCode == http.StatusOK, resp.Body.Close()
}

// freeAddress is an address without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	return l.Addr().String()
}
