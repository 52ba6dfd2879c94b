// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// admin may do everything on the API server of the tests; nil without one.
var (
	admin       *kubernetes.Clientset
	adminConfig *rest.Config
)

// managerName is the account of the hub, which may read what the tests let it read.
const managerName = "system:serviceaccount:managed:manager"

func TestMain(m *testing.M) { os.Exit(runSuite(m)) }

func runSuite(m *testing.M) int {
	flag.Parse()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if testing.Short() || dir == "" {
		return m.Run()
	}
	ctrl.SetLogger(logr.Discard())
	env := &envtest.Environment{BinaryAssetsDirectory: dir}
	config, err := env.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
	}()
	config.QPS, config.Burst = 500, 500
	config.ContentType = runtime.ContentTypeProtobuf // as the manager's
	admin, adminConfig = kubernetes.NewForConfigOrDie(config), config
	return m.Run()
}

// clientOf is a client of an account, which may read nothing but what roles say.
func clientOf(t *testing.T, user string) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(adminConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// fakeShares says what the tests let NodeWorkloads refer to.
type fakeShares struct {
	mu       sync.Mutex
	refs     map[string][]apiobjects.Key
	listener func(string)
	unsynced bool
}

func (f *fakeShares) WaitForSync(ctx context.Context) error {
	if f.unsynced {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *fakeShares) References(node string) []apiobjects.Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refs[node]
}

func (f *fakeShares) ListenReferences(listener func(string)) { f.listener = listener }

func (f *fakeShares) Tokens(string, string, string) []apiobjects.AccountTokens { return nil }

// need lets a node need these objects.
func (f *fakeShares) need(node string, keys ...apiobjects.Key) {
	f.mu.Lock()
	f.refs[node] = keys
	f.mu.Unlock()
	f.listener(node)
}

// bench is a hub over the real API server, with a namespace of its own.
type bench struct {
	*Hub
	t         *testing.T
	shares    *fakeShares
	namespace string
}

func newBench(t *testing.T, client func(*testing.T) kubernetes.Interface) *bench {
	t.Helper()
	if admin == nil {
		t.Skip("needs an API server: KUBEBUILDER_ASSETS is not set, or -short")
	}
	namespace, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, shares: &fakeShares{refs: map[string][]apiobjects.Key{}}, namespace: namespace.Name}
	api := client(t)
	b.Hub = NewHub(api.CoreV1(), api.AuthenticationV1(), api.AuthorizationV1(), b.shares)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(b.objects)+len(b.nodes)+len(b.spaces)+len(b.reads) > 0 {
			t.Errorf("%d objects and %d nodes are watched after the end, %d spaces, %d reads", len(b.objects), len(b.nodes), len(b.spaces), len(b.reads))
		}
	})
	for b.started() == nil {
		time.Sleep(time.Millisecond)
	}
	return b
}

func (h *Hub) started() any {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.launch == nil {
		return nil
	}
	return true
}

func asAdmin(*testing.T) kubernetes.Interface     { return admin }
func asManager(t *testing.T) kubernetes.Interface { return clientOf(t, managerName) }

func (b *bench) configMap(name string) apiobjects.Key {
	return apiobjects.Key{Namespace: b.namespace, Ref: apiobjects.Ref{Kind: apiobjects.ConfigMap, Name: name}}
}

func (b *bench) secret(name string) apiobjects.Key {
	return apiobjects.Key{Namespace: b.namespace, Ref: apiobjects.Ref{Kind: apiobjects.Secret, Name: name}}
}

// put writes a ConfigMap with one key.
func (b *bench) put(name, value string) *corev1.ConfigMap {
	b.t.Helper()
	maps := admin.CoreV1().ConfigMaps(b.namespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": value}}
	written, err := maps.Update(b.t.Context(), object, metav1.UpdateOptions{})
	if err != nil {
		written, err = maps.Create(b.t.Context(), object, metav1.CreateOptions{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return written
}

func (b *bench) delete(name string) {
	b.t.Helper()
	if err := admin.CoreV1().ConfigMaps(b.namespace).Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// bind gives the manager rights in the namespace.
func (b *bench) bind(rule rbacv1.PolicyRule) {
	b.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{GenerateName: "r-"}, Rules: []rbacv1.PolicyRule{rule}}
	role, err := admin.RbacV1().Roles(b.namespace).Create(b.t.Context(), role, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = admin.RbacV1().RoleBindings(b.namespace).Create(b.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: managerName}},
	}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
}

// allow lets the manager read objects of the namespace.
func (b *bench) allow(names ...string) {
	b.t.Helper()
	b.bind(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"get", "list", "watch"}, ResourceNames: names})
	for _, name := range names { // the authorizer learns it by a watch
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: b.namespace, Verb: "watch", Resource: "configmaps", Name: name},
		}}
		for {
			answer, err := asManager(b.t).AuthorizationV1().SelfSubjectAccessReviews().Create(b.t.Context(), review, metav1.CreateOptions{})
			if err != nil {
				b.t.Fatal(err)
			}
			if answer.Status.Allowed {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// receiver reads the watch of a node.
type receiver struct {
	watch.Interface
	t *testing.T
}

func (b *bench) watch(node string) *receiver {
	b.t.Helper()
	w, err := b.Watch(b.t.Context(), node)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(w.Stop)
	return &receiver{w, b.t}
}

// next is the next event, in words: "ADDED ConfigMap a Present v1", and its object.
func (r *receiver) next() (string, *subresources.NodeObject) {
	r.t.Helper()
	select {
	case event, ok := <-r.ResultChan():
		if !ok {
			return "closed", nil
		}
		o, ok := event.Object.(*subresources.NodeObject)
		if !ok {
			r.t.Fatalf("got a %T", event.Object)
		}
		switch event.Type {
		case watch.Bookmark:
			return "BOOKMARK " + o.Annotations[metav1.InitialEventsAnnotationKey], o
		case watch.Deleted:
			return fmt.Sprintf("DELETED %s %s", o.ObjectKind, o.ObjectName), o
		case watch.Added, watch.Modified, watch.Error:
		}
		text := fmt.Sprintf("%s %s %s %s", event.Type, o.ObjectKind, o.ObjectName, o.State)
		if value, ok := o.Data["k"]; ok {
			text += " " + string(value)
		}
		return text, o
	case <-time.After(30 * time.Second):
		r.t.Fatal("nothing came in 30 s")
	}
	return "", nil
}

// expect reads as many events, in this order, and returns the last object.
func (r *receiver) expect(want ...string) (last *subresources.NodeObject) {
	r.t.Helper()
	for _, text := range want {
		got, o := r.next()
		if got != text {
			r.t.Fatalf("got %q, want %q", got, text)
		}
		last = o
	}
	return last
}

// expectInitial reads events in any order, and then the bookmark.
func (r *receiver) expectInitial(want ...string) {
	r.t.Helper()
	var got []string
	for range want {
		text, _ := r.next()
		got = append(got, text)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Fatalf("got %q, want %q", got, want)
	}
	r.expect("BOOKMARK true")
}

type (
	apiKey = apiobjects.Key
	apiRef = apiobjects.Ref
)
