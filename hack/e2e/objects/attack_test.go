// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// standalone is the service account of shims on nodes without a kubelet.
const standalone = "managedworkload-standalone-shim"

// A shim's token gets what the workloads of its own node refer to, and nothing else;
// another token gets nothing at all.
func testAttacks(t *testing.T) {
	a, b := env.Stack.Nodes[0], env.Stack.Nodes[1]
	w := onFirst(t)
	w.AllowObjects()
	w.KubectlApply(secret("named", "key", hidden+"-named") + secret("other", "key", hidden+"-other"))
	template := first() + "containers: [{name: c, image: " + testImage + ", volumeMounts: [{name: v, mountPath: /v}]}]\nvolumes: [{name: v, secret: {secretName: %s}}]"
	w.Apply(fmt.Sprintf(template, "named"))
	share := w.AwaitReady().Name
	tokenA, tokenB := held(t, a.ShimTokenFile()), held(t, b.ShimTokenFile())
	objects := func(node string) string {
		return "/nodeobjects?watch=true&fieldSelector=metadata.name%3D" + node
	}
	token := func(name string) string { return "/namespaces/" + w.Namespace + "/nodeworkloads/" + name + "/token" }

	// Its own: what is named, and not what is not.
	if got := names(t, tokenA, a.NodeName(), w.Namespace); !slices.Contains(got, "secret.named") || slices.Contains(got, "secret.other") {
		t.Errorf("node A gets %q", got)
	}
	if got := names(t, tokenB, b.NodeName(), w.Namespace); len(got) > 0 {
		t.Errorf("node B gets %q of a workload on node A", got)
	}
	editor, ghost := account(t, w.Namespace, a.NodeName()), ghostToken(t)
	tests := map[string]struct {
		token, path, body string
		want              int
	}{
		"the objects of another node":                  {tokenA, objects(b.NodeName()), "", http.StatusForbidden},
		"those of all nodes":                           {tokenA, "/nodeobjects?watch=true", "", http.StatusBadRequest},
		"a token bound to the node without report":     {editor, objects(a.NodeName()), "", http.StatusForbidden},
		"a token of an editor's for a workload":        {editor, token(share), tokenRequest(""), http.StatusForbidden},
		"a Node that was deleted, by the same name":    {ghost, objects("ghost"), "", http.StatusUnauthorized},
		"a token for a workload of another node":       {tokenB, token(share), tokenRequest(""), http.StatusForbidden},
		"a token for an audience that none asks for":   {tokenA, token(share), tokenRequest("vault"), http.StatusForbidden},
		"a token for a workload that does not exist":   {tokenA, token("nothing"), tokenRequest(""), http.StatusForbidden},
		"a token of another service account":           {tokenA, token(share), `{"metadata":{"name":"editor"}}`, http.StatusForbidden},
		"no token at all":                              {"", objects(a.NodeName()), "", http.StatusForbidden},
		"the headers of a front proxy, made by anyone": {"front", objects(a.NodeName()), "", http.StatusForbidden},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			response := ask(t.Context(), t, tc.token, tc.path, tc.body)
			body, err := io.ReadAll(response.Body)
			if err := errors.Join(err, response.Body.Close()); err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != tc.want || strings.Contains(string(body), hidden) {
				t.Errorf("%s %s, want %d", response.Status, body, tc.want)
			}
		})
	}

	// What a workload named until a moment ago.
	w.Apply(fmt.Sprintf(template, "other"))
	w.AwaitReady()
	w.Await("the share has settled", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.ObservedGeneration == nw.Generation })
	deadline := time.Now().Add(time.Minute)
	for got := names(t, tokenA, a.NodeName(), w.Namespace); slices.Contains(got, "secret.named"); got = names(t, tokenA, a.NodeName(), w.Namespace) {
		if time.Now().After(deadline) {
			t.Fatalf("node A still gets %q", got)
		}
	}
}

// held reads a token.
func held(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file) // #nosec G304 -- of the stack
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// ask calls the aggregated API through kube-apiserver. A token "front" claims to be the
// front proxy's word for node A's shim.
func ask(ctx context.Context, t *testing.T, token, path, body string) *http.Response {
	t.Helper()
	config := rest.AnonymousClientConfig(env.Stack.RESTConfig())
	if token != "front" {
		config.BearerToken = token
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, config.Host+"/apis/"+subresources.GroupVersion.String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token == "front" {
		request.Header.Set("X-Remote-User", "system:serviceaccount:managedworkload-system:"+standalone)
		request.Header.Set("X-Remote-Extra-Authentication.kubernetes.io%2fnode-Name", env.Stack.NodeName())
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// names are those of the objects of a namespace that a node gets: what a watch sends first.
func names(t *testing.T, token, node, namespace string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	response := ask(ctx, t, token, "/nodeobjects?watch=true&fieldSelector=metadata.name%3D"+node, "")
	defer response.Body.Close() //nolint:errcheck // only read
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		t.Fatalf("watch of node %s: %s %s", node, response.Status, body)
	}
	var found []string
	for decoder := json.NewDecoder(response.Body); ; {
		var event struct {
			Type   string
			Object subresources.NodeObject
		}
		if err := decoder.Decode(&event); err != nil {
			t.Fatalf("watch of node %s after %q: %v", node, found, err)
		}
		switch {
		case event.Type == "BOOKMARK" && event.Object.Annotations[metav1.InitialEventsAnnotationKey] == "true":
			return found
		case event.Type == "ADDED" && event.Object.Namespace == namespace:
			found = append(found, event.Object.Name)
		}
	}
}

func tokenRequest(audience string) string {
	request := authenticationv1.TokenRequest{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	data, err := json.Marshal(request)
	if err != nil {
		panic(err) // texts alone
	}
	return string(data)
}

// account makes a service account that RBAC lets call the aggregated API, as a careless
// administrator might, and returns a token of it that is bound to the node.
func account(t *testing.T, namespace, node string) string {
	t.Helper()
	const name = "editor"
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "managedworkload-shim-objects"}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace}, RoleRef: role, Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}},
	} {
		if err := env.Kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return boundToken(t, namespace, name, node)
}

// ghostToken is bound to a Node that was deleted and made again.
func ghostToken(t *testing.T) string {
	t.Helper()
	ghost := func() *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ghost", Labels: map[string]string{"managedworkload.dev/registered-by": "shim"}}}
	}
	if err := env.Kube.Create(t.Context(), ghost()); err != nil {
		t.Fatal(err)
	}
	token := boundToken(t, "managedworkload-system", standalone, "ghost")
	if err := errors.Join(env.Kube.Delete(t.Context(), ghost()), env.Kube.Create(t.Context(), ghost())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Kube.Delete(context.Background(), ghost()) })
	return token
}

// boundToken asks for a token as whoever may create tokens in the namespace can.
func boundToken(t *testing.T, namespace, account, node string) string {
	t.Helper()
	kube, err := kubernetes.NewForConfig(env.Stack.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	found := &corev1.Node{}
	if err := env.Kube.Get(t.Context(), client.ObjectKey{Name: node}, found); err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: found.UID},
	}}
	answer, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}
