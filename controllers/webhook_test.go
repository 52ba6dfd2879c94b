// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/options"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/controllers/webhook"
)

// hookNamespace is where the manager with the webhook is installed, and hookTenant where templates are
// applied that it is asked about.
const (
	hookNamespace = "webhooked"
	hookTenant    = "webhook-tenant"
)

// serveWebhook runs a manager that serves the webhook and reconciles nothing, with the rights that config/
// gives it, and lets the API server find it on this machine. It returns its address.
func serveWebhook(t *testing.T) (address string) {
	t.Helper()
	for _, name := range []string{hookNamespace, hookTenant} {
		create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, file := range []string{
		"rbac/role.yaml", "rbac/manager_role_binding.yaml", "rbac/webhook_role.yaml", "rbac/webhook_role_binding.yaml",
		"webhook/secret.yaml", "webhook/service.yaml", "webhook/validating_webhook.yaml",
	} {
		installFile(t, filepath.Join("..", "config", file), hookNamespace)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	_ = listener.Close()
	leadToWebhook(t, listener.Addr().(*net.TCPAddr).Port)

	cfg := rest.CopyConfig(apiConfig)
	cfg.QPS, cfg.Burst = DefaultLoad.QPS, DefaultLoad.Burst
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + hookNamespace + ":managedworkload-manager",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + hookNamespace, "system:authenticated"},
	}
	o := Options{Load: DefaultLoad, Shared: options.Shared{MetricsBindAddress: "0", HealthProbeBindAddress: "0", Namespace: hookNamespace}}
	o.Webhook = webhook.Options{BindAddress: address, Name: "managedworkload-webhook", CertificateDir: t.TempDir(), RotateCertificates: true}
	ctx, cancel := context.WithCancel(t.Context())
	mgr, err := newManager(ctx, cfg, o, &record.FakeRecorder{})
	if err != nil {
		t.Fatal(err)
	}
	asking, err := newWebhookClient(mgr)
	if err != nil {
		t.Fatal(err)
	}
	if err := webhook.SetUp(ctx, mgr, o.Webhook, o.Namespace, admission.NewJudge(asking, admission.Options{NoTokens: true})); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := mgr.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return address
}

// leadToWebhook lets the API server ask at a port of this machine, about the tenant's namespace only.
func leadToWebhook(t *testing.T, port int) {
	t.Helper()
	service := &corev1.Service{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: hookNamespace, Name: "managedworkload-webhook"}, service); err != nil {
		t.Fatal(err)
	}
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	if err := api.Update(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := api.Get(t.Context(), client.ObjectKey{Name: "managedworkload-webhook"}, config); err != nil {
		t.Fatal(err)
	}
	config.Webhooks[0].ClientConfig.Service.Port = new(int32(port)) // #nosec G115 -- a port
	config.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: hookTenant}}
	if err := api.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// applied is an object whose container mounts a volume, "" is none. Only the validation of Pods knows whether
// there is such a volume.
func applied(mounted string) *v1alpha1.ManagedWorkload {
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: hookTenant, Name: "web"}}
	mw.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "image:1"}}
	if mounted != "" {
		mw.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: mounted, MountPath: "/files"}}
	}
	return mw
}

// The API server finds the webhook at the path that the manager wrote for it, and gets the answers of
// admission; who asks otherwise is not answered.
func TestWebhookAnswersTheAPIServerOnly(t *testing.T) {
	if api == nil {
		t.Skip(whyNoAPI)
	}
	address := serveWebhook(t)
	refused := func(ctx context.Context) (bool, error) {
		err := api.Create(ctx, applied("missing"), client.DryRunAll)
		if err != nil && !strings.Contains(err.Error(), "spec.template.spec.containers[0].volumeMounts[0].name") {
			return false, err
		}
		return err != nil, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, refused); err != nil {
		t.Fatalf("the API server does not ask the webhook: %v", err)
	}
	for _, path := range []string{"", "/", "/guess"} {
		code, err := askDirectly(t.Context(), address, webhook.Path+path)
		if err != nil || code != http.StatusNotFound {
			t.Errorf("%q: answer %d, error %v, want none", path, code, err)
		}
	}
	t.Run("too many KillRequests", refusesTooManyKillRequests)
}

// refusesTooManyKillRequests makes KillRequests, each of 1,000 nodes, until the API server says that there are
// too many.
func refusesTooManyKillRequests(t *testing.T) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprint("node-", i))
	}
	for i := range 100 {
		kr := &v1alpha1.KillRequest{ObjectMeta: metav1.ObjectMeta{Namespace: hookTenant, Name: fmt.Sprint("kr-", i)}}
		kr.Spec = v1alpha1.KillRequestSpec{WorkloadName: "web", Nodes: v1alpha1.RequestNodes{Names: names}, Action: v1alpha1.RequestRestart}
		err := api.Create(t.Context(), kr)
		if err == nil {
			continue
		}
		if want := "the KillRequests of namespace " + hookTenant + " would name "; !strings.Contains(err.Error(), want) || i == 0 {
			t.Errorf("request %d: %v", i, err)
		}
		return
	}
	t.Error("100 KillRequests of 1,000 nodes each were taken")
}

// askDirectly asks the webhook as the API server would, in the name of an administrator.
func askDirectly(ctx context.Context, address, path string) (code int, err error) {
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","namespace":"kube-system",
		"userInfo":{"username":"admin","groups":["system:masters"]},"object":{"apiVersion":"managedworkload.dev/v1alpha1","kind":"ManagedWorkload",
		"metadata":{"name":"x","namespace":"kube-system"},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("https://%s%s", address, path), strings.NewReader(review))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // #nosec G402 -- as an attacker
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
