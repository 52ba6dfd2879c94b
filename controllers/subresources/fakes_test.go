// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

const shim = "system:serviceaccount:managedworkload-system:managedworkload-shim"

// cluster is what the API server and the manager's other rooms say.
type cluster struct {
	client.Client

	mu    sync.Mutex
	known map[string]*corev1.Node
	// lagging: the cache does not know them.
	lagging bool
	// reports are the users who may report, and down is what the API server answers instead.
	reports       map[string]bool
	down, noToken error
	// reviewed and asked are the questions.
	reviewed []authorizationv1.SubjectAccessReviewSpec
	asked    []*authenticationv1.TokenRequest
	accounts []string
	watched  []string
	// tokens are those of the NodeWorkloads, by node/namespace/name.
	tokens map[string][]objects.AccountTokens
	events feed
	// silent is a node whose Node gets no answer; unanswered counts those requests, requests all.
	silent string
	// slow is what each question waits for, nil for nothing.
	slow                 func()
	unanswered, requests atomic.Int32
}

func named(name string) user.Info { return &user.DefaultInfo{Name: name} }

func node(name string, uid types.UID) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
}

// newCluster has the nodes a and b, and a shim that may report.
func newCluster() *cluster {
	c := &cluster{
		known: map[string]*corev1.Node{}, reports: map[string]bool{shim: true}, tokens: map[string][]objects.AccountTokens{}, events: make(feed),
	}
	c.Client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: c.get, Create: c.create, SubResourceCreate: c.subresource,
	}).Build()
	c.set("a", "uid-a")
	c.set("b", "uid-b")
	return c
}

func (c *cluster) set(name string, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[name] = node(name, uid); uid == "" {
		delete(c.known, name)
	}
}

func (c *cluster) do(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *cluster) get(ctx context.Context, inner client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	c.requests.Add(1)
	if key.Name == c.silent {
		c.unanswered.Add(1)
		<-ctx.Done()
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down != nil {
		return c.down
	}
	if n, ok := into.(*corev1.Node); ok && c.known[key.Name] != nil {
		c.known[key.Name].DeepCopyInto(n)
		return nil
	}
	return inner.Get(ctx, key, into, opts...)
}

func (c *cluster) create(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
	c.requests.Add(1)
	if c.slow != nil {
		c.slow()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down != nil {
		return c.down
	}
	review := object.(*authorizationv1.SubjectAccessReview)
	c.reviewed = append(c.reviewed, review.Spec)
	review.Status.Allowed = c.reports[review.Spec.User]
	return nil
}

func (c *cluster) subresource(_ context.Context, _ client.Client, _ string, of, what client.Object, _ ...client.SubResourceCreateOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noToken != nil {
		return c.noToken
	}
	request := what.(*authenticationv1.TokenRequest)
	c.asked = append(c.asked, request.DeepCopy())
	c.accounts = append(c.accounts, of.GetNamespace()+"/"+of.GetName())
	request.Status.Token = "made"
	return nil
}

// nodesOf is the manager's cache of Nodes.
type nodesOf struct{ *cluster }

func (c nodesOf) Get(name string) *corev1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lagging {
		return nil
	}
	return c.known[name]
}

func (c *cluster) watch(node string) (watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched = append(c.watched, node)
	return c.events, nil
}

func (c *cluster) Tokens(node, namespace, name string) []objects.AccountTokens {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens[node+"/"+namespace+"/"+name]
}

// WorkloadOf: web-a and web-b are of the ManagedWorkload web.
func (c *cluster) WorkloadOf(node, namespace, name string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, found := c.tokens[node+"/"+namespace+"/"+name]
	workload, _, _ := strings.Cut(name, "-")
	return workload, found
}

// feed is a watch.
type feed chan watch.Event

func (f feed) Stop()                          {}
func (f feed) ResultChan() <-chan watch.Event { return f }

// send sends an event, unless ctx ends before it is taken.
func (f feed) send(ctx context.Context, kind watch.EventType, object runtime.Object) {
	select {
	case f <- watch.Event{Type: kind, Object: object}:
	case <-ctx.Done():
	}
}

// contents are Objects, without the methods of a client.
type contents struct{ *cluster }

func (c contents) Watch(_ context.Context, node string) (watch.Interface, error) {
	return c.watch(node)
}

func (c *cluster) handler() *handler {
	return &handler{
		client: c, gate: &gate{reader: c, nodes: nodesOf{c}, reviews: newReviews(c)}, bounds: newBounds(), encodings: newEncodings(), chunkTimeout: chunkTimeout,
		objects: contents{c}, references: c, workloads: c, usages: newUsages(), peers: newPeers(c, func() *tls.Certificate { return nil }, "system", "s"),
		log: logr.Discard(), said: flowcontrol.NewFakeAlwaysRateLimiter(),
	}
}

// serve answers requests that have passed the front proxy.
func (c *cluster) serve(t *testing.T) http.Handler { return c.handler().routes(front(t)) }

// front takes the word of the front proxy's headers.
func front(t *testing.T) authenticator.Request {
	t.Helper()
	front, err := headerrequest.New([]string{"X-Remote-User"}, []string{"X-Remote-Uid"}, []string{"X-Remote-Group"}, []string{"X-Remote-Extra-"})
	if err != nil {
		t.Fatal(err)
	}
	return front
}

// asked notes the user of a request.
type asked struct{ user user.Info }

func (a *asked) ServeHTTP(_ http.ResponseWriter, req *http.Request) { a.user = userOf(req.Context()) }

// as is what the front proxy says of a user whose token is bound to a Node; "" is bound to none.
func as(req *http.Request, user, node string, uid string) *http.Request {
	extra := map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=" + user + node}}
	if node != "" {
		extra[extraNodeName], extra[extraNodeUID] = []string{node}, []string{uid}
	}
	transport.SetAuthProxyHeaders(req, user, "", []string{"system:serviceaccounts"}, extra)
	return req
}

func get(t *testing.T, path string) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
}

func post(t *testing.T, path, body string) *http.Request {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	return req
}

func watchPath(node string) string {
	return pathVersion + "/nodeobjects?watch=true&fieldSelector=metadata.name%3D" + node
}

// answer is the Status that a request gets.
func answer(t *testing.T, h http.Handler, req *http.Request) (int, metav1.Status) {
	t.Helper()
	ctx, cancel := context.WithTimeout(req.Context(), 5*time.Second) // ends a watch that should have been refused
	defer cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req.WithContext(ctx))
	var status metav1.Status
	if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
		t.Fatalf("answer %d %q: %v", w.Code, w.Body, err)
	}
	if w.Code != int(status.Code) && status.Kind == "Status" {
		t.Errorf("answer %d with status %d", w.Code, status.Code)
	}
	return w.Code, status
}

// event is one of a watch.
type event struct {
	Type   watch.EventType
	Object struct {
		v1alpha1.NodeObject
		Code int
	}
}

// read reads events until a watch ends.
func read(t *testing.T, from io.Reader) (events []event) {
	t.Helper()
	for decoder := json.NewDecoder(from); ; {
		var e event
		if err := decoder.Decode(&e); err == io.EOF {
			return events
		} else if err != nil {
			t.Fatalf("after %d events: %v", len(events), err)
		}
		events = append(events, e)
	}
}

func object(name string, data string) *v1alpha1.NodeObject {
	return &v1alpha1.NodeObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: v1alpha1.NodeObjectName("Secret", name)}, ObjectKind: "Secret", ObjectName: name,
		State: v1alpha1.ObjectPresent, Data: map[string][]byte{"key": []byte(data)},
	}
}

func bookmark() *v1alpha1.NodeObject {
	return &v1alpha1.NodeObject{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
}
