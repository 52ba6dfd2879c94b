// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/options"
	aggregated "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/subresources"
)

const (
	// aggNamespace is where the manager with the aggregated API is installed, and tenants is that of
	// workloads.
	aggNamespace = "aggregated"
	tenants      = "tenants"
	managerUser  = "system:serviceaccount:" + aggNamespace + ":managedworkload-manager"
)

// replica is a manager that serves the aggregated API, and reconciles nothing.
type replica struct {
	port int
	stop func()
}

// startReplica starts one with the rights that config/ gives the manager.
func startReplica(t *testing.T) *replica {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{port: listener.Addr().(*net.TCPAddr).Port}
	_ = listener.Close()
	cfg := rest.CopyConfig(apiConfig)
	cfg.QPS, cfg.Burst = 500, 500
	cfg.Impersonate = rest.ImpersonationConfig{UserName: managerUser, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + aggNamespace, "system:authenticated"}}
	o := Options{
		Load: DefaultLoad, LeaderElect: true, Shared: options.Shared{MetricsBindAddress: "0", HealthProbeBindAddress: "0", Namespace: aggNamespace},
		Subresources: subresources.Options{
			BindAddress: fmt.Sprintf("127.0.0.1:%d", r.port), Name: "managedworkload-subresources", CertificateDir: t.TempDir(), RotateCertificates: true,
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	mgr, err := newManager(ctx, cfg, o, &record.FakeRecorder{})
	if err != nil {
		t.Fatal(err)
	}
	known := newFleet(aggNamespace)
	feed, err := watchFleet(ctx, mgr, known)
	if err != nil {
		t.Fatal(err)
	}
	hub, err := newHub(mgr, known)
	if err != nil {
		t.Fatal(err)
	}
	sources := subresources.Sources{Nodes: known.Nodes, Objects: hub, References: hub, TokenRights: hub}
	for _, err := range []error{mgr.Add(feed), mgr.Add(hub), subresources.SetUp(ctx, mgr, o.Subresources, aggNamespace, sources)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := mgr.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	r.stop = func() { cancel(); <-done }
	t.Cleanup(r.stop)
	return r
}

// install creates what config/ has for the aggregated API.
func install(t *testing.T) {
	t.Helper()
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: aggNamespace}})
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenants}})
	for _, pattern := range []string{"rbac/*role*.yaml", "rbac/*service_account.yaml", "components/objects/*.yaml"} {
		files, err := filepath.Glob(filepath.Join("..", "config", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, error %v", pattern, len(files), err)
		}
		for _, file := range files {
			installFile(t, file, aggNamespace)
		}
	}
}

// installFile creates what a file of config/ has, in a namespace.
func installFile(t *testing.T, file, namespace string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content = bytes.ReplaceAll(content, []byte("managedworkload-system"), []byte(namespace))
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if object.GetKind() != "Component" {
			create(t, object)
		}
	}
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
	t.Cleanup(func() {
		if err := api.Delete(context.WithoutCancel(t.Context()), object); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

// lead lets the API server find the aggregated API on this machine, and waits until it does.
func lead(t *testing.T, r *replica) {
	t.Helper()
	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: aggNamespace, Name: "managedworkload-subresources"}
	if err := api.Get(t.Context(), key, service); err != nil {
		t.Fatal(err)
	}
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	if err := api.Update(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	entry := &unstructured.Unstructured{}
	entry.SetAPIVersion("apiregistration.k8s.io/v1")
	entry.SetKind("APIService")
	entry.SetName("v1alpha1.subresources.managedworkload.dev")
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/service/port","value":%d}]`, r.port)
	if err := api.Patch(t.Context(), entry, client.RawPatch("application/json-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
	available := func(ctx context.Context) (bool, error) {
		if err := api.Get(ctx, client.ObjectKeyFromObject(entry), entry); err != nil {
			return false, err
		}
		bundle, _, _ := unstructured.NestedString(entry.Object, "spec", "caBundle")
		conditions, _, _ := unstructured.NestedSlice(entry.Object, "status", "conditions")
		return bundle != "" && slices.ContainsFunc(conditions, func(c any) bool {
			return c.(map[string]any)["type"] == "Available" && c.(map[string]any)["status"] == "True"
		}), nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, time.Minute, true, available); err != nil {
		t.Fatalf("%v: %v", err, entry.Object["status"])
	}
}

// tokenOf is a token of a service account that is bound to a Node.
func tokenOf(t *testing.T, account string, node *corev1.Node) *rest.Config {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
	}}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: aggNamespace, Name: account}}
	if err := api.SubResource("token").Create(t.Context(), of, request); err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(apiConfig)
	cfg.BearerToken = request.Status.Token
	return cfg
}

// watchNode watches what a node refers to.
func watchNode(ctx context.Context, t *testing.T, cfg *rest.Config, node string) (watch.Interface, error) {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := aggregated.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c.Watch(ctx, &aggregated.NodeObjectList{}, client.MatchingFields{"metadata.name": node})
}

// askToken asks for a token of a NodeWorkload.
func askToken(t *testing.T, cfg *rest.Config, name, audience string) (*authenticationv1.TokenRequest, error) {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	body := &authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{Kind: "TokenRequest", APIVersion: "authentication.k8s.io/v1"},
		Spec:     authenticationv1.TokenRequestSpec{Audiences: []string{audience}, ExpirationSeconds: new(int64(3607))},
	}
	made := &authenticationv1.TokenRequest{}
	path := fmt.Sprintf("/apis/%s/namespaces/%s/nodeworkloads/%s/token", aggregated.GroupVersion, tenants, name)
	return made, clientset.AuthenticationV1().RESTClient().Post().AbsPath(path).Body(body).Do(t.Context()).Into(made)
}

// next is the next event of a watch about what is not unavailable. It leaves ServiceAccounts out: they come as the manager gets to
// ask about them.
func next(t *testing.T, events watch.Interface) string {
	t.Helper()
	for {
		select {
		case event, more := <-events.ResultChan():
			switch object := event.Object.(type) {
			case *aggregated.NodeObject:
				if object.State != aggregated.ObjectUnavailable && object.ObjectKind != "ServiceAccount" {
					return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", event.Type, object.Name, object.State, object.Data["key"]))
				}
			case *metav1.Status:
				return fmt.Sprintf("%s %d %s", event.Type, object.Code, object.Message)
			default:
				return fmt.Sprintf("%s %v, more: %t", event.Type, object, more)
			}
		case <-time.After(40 * time.Second):
			t.Fatal("no event")
		}
	}
}

// grantTokens lets the manager make tokens of a service account.
func grantTokens(t *testing.T, account string) {
	t.Helper()
	create(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: tenants, Name: "token"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}, ResourceNames: []string{account},
	}}})
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenants, Name: "token"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "token"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: managerUser}},
	})
}

// awaitToken asks for a token until the API server's authorizer knows of the grant.
func awaitToken(t *testing.T, cfg *rest.Config, name, audience string) (made *authenticationv1.TokenRequest, err error) {
	t.Helper()
	_ = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		made, err = askToken(t, cfg, name, audience)
		return err == nil, nil
	})
	return made, err
}

// nodeWith is a Node with a NodeWorkload that refers to a Secret, and asks for a token.
func nodeWith(t *testing.T, name, secret string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	create(t, node)
	create(t, &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenants, Name: "web-" + name},
		Spec: v1alpha1.NodeWorkloadSpec{NodeName: name, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers:         []corev1.Container{{Name: "c", Image: "i", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}}}},
			ServiceAccountName: "web",
			Volumes: []corev1.Volume{{Name: "t", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: "token", ExpirationSeconds: new(int64(3607))}},
			}}}}},
		}}},
	})
	return node
}

// A shim gets through the API server, from a replica that does not lead, what its node needs, and
// an attacker gets nothing.
func TestAggregatedAPI(t *testing.T) {
	if api == nil {
		t.Skip(whyNoAPI)
	}
	install(t)
	startReplica(t)
	follower := startReplica(t)
	lead(t, follower)
	bind := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenants, Name: "objects"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "managedworkload-objects"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: managerUser}},
	}
	create(t, bind)
	for _, name := range []string{"one", "two"} {
		create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenants, Name: name}, Data: map[string][]byte{"key": []byte(name)}})
	}
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: tenants, Name: "web"}})
	nodeA, nodeB := nodeWith(t, "agg-a", "one"), nodeWith(t, "agg-b", "two")
	shimA := tokenOf(t, "managedworkload-shim", nodeA)

	events, err := watchNode(t.Context(), t, shimA, nodeA.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for _, want := range []string{"ADDED secret.one Present one", "BOOKMARK"} {
		if got := next(t, events); got != want {
			t.Fatalf("event %q, want %q", got, want)
		}
	}
	if _, err := askToken(t, shimA, "web-agg-a", "vault"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "run: kubectl create role managedworkload-token-web ") {
		t.Errorf("a token that the namespace does not grant: error %v", err)
	}
	grantTokens(t, "web")
	made, err := awaitToken(t, shimA, "web-agg-a", "vault")
	if err != nil || made.Status.Token == "" || made.Spec.BoundObjectRef.UID != nodeA.UID || *made.Spec.ExpirationSeconds != 3600 {
		t.Errorf("token %+v, error %v", made.Spec, err)
	}

	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: aggNamespace, Name: "editor"}})
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "agg-editor"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "managedworkload-shim-objects"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: aggNamespace, Name: "editor"}},
	})
	editor := tokenOf(t, "editor", nodeA)
	t.Run("attackers", func(t *testing.T) {
		attacked := map[string]struct {
			cfg      *rest.Config
			node     string
			workload string
			audience string
			words    string
		}{
			"node a for node b":                {shimA, nodeB.Name, "web-agg-b", "vault", "agg-b"},
			"an editor's token without report": {editor, nodeA.Name, "web-agg-a", "vault", "lacks the verb report"},
			"another audience":                 {shimA, "", "web-agg-a", "bank", "asks for no token"},
		}
		for name, tc := range attacked {
			t.Run(name, func(t *testing.T) {
				if tc.node != "" {
					if _, err := watchNode(t.Context(), t, tc.cfg, tc.node); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.words) {
						t.Errorf("watch: error %v, want %q", err, tc.words)
					}
				}
				if _, err := askToken(t, tc.cfg, tc.workload, tc.audience); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.words) {
					t.Errorf("token: error %v, want %q", err, tc.words)
				}
			})
		}
		t.Run("a direct caller", func(t *testing.T) { directly(t, follower, nodeA) })
	})

	// The NodeWorkload refers to another Secret.
	nw := &v1alpha1.NodeWorkload{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: tenants, Name: "web-agg-a"}, nw); err != nil {
		t.Fatal(err)
	}
	nw.Spec.Template.Spec.Containers[0].EnvFrom[0].SecretRef.Name = "missing"
	if err := api.Update(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	got := []string{next(t, events), next(t, events)}
	if slices.Sort(got); !slices.Equal(got, []string{"ADDED secret.missing NotFound", "DELETED secret.one"}) {
		t.Errorf("events %q", got)
	}

	// Another node has its name.
	if err := api.Delete(t.Context(), nodeA); err != nil {
		t.Fatal(err)
	}
	create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeA.Name}})
	if got := next(t, events); !strings.HasPrefix(got, "ERROR 403 ") || !strings.Contains(got, "bound to an earlier node agg-a") {
		t.Errorf("event %q", got)
	}
	if _, err := askToken(t, shimA, "web-agg-a", "vault"); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token bound to a deleted Node: error %v", err)
	}
}

// directly asks a replica past the API server, with the headers that it would send.
func directly(t *testing.T, r *replica, node *corev1.Node) {
	t.Helper()
	path := fmt.Sprintf("https://127.0.0.1:%d/apis/%s/nodeobjects?watch=true&fieldSelector=metadata.name%%3D%s", r.port, aggregated.GroupVersion, node.Name)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Remote-User", "system:serviceaccount:"+aggNamespace+":managedworkload-shim")
	req.Header.Set("X-Remote-Extra-Authentication.kubernetes.io%2fnode-Name", node.Name)
	req.Header.Set("X-Remote-Extra-Authentication.kubernetes.io%2fnode-Uid", string(node.UID))
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("answer %s", res.Status)
	}
}
