// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
)

// A node gets what its NodeWorkloads refer to and nothing else, from the first reference to
// the last.
func TestNodeGetsWhatItRefersTo(t *testing.T) {
	b := newBench(t, asAdmin)
	b.put("a", "1")
	b.put("b", "1")
	b.put("other", "1")
	b.shares.need("n1", b.configMap("a"), b.configMap("missing"))
	b.shares.need("n2", b.configMap("other"))
	w := b.watch("n1")
	w.expectInitial("ADDED ConfigMap a Present 1", "ADDED ConfigMap missing NotFound")
	b.shares.need("n1", b.configMap("a"), b.configMap("missing"), b.configMap("b"))
	w.expect("ADDED ConfigMap b Present 1")
	b.shares.need("n1", b.configMap("missing"), b.configMap("b"))
	if o := w.expect("DELETED ConfigMap a"); o.Data != nil || o.Namespace != b.namespace || o.Name != "configmap.a" {
		t.Errorf("DELETED has %v", o)
	}
	b.put("a", "2") // not this node's any more
	b.put("other", "2")
	b.put("b", "2")
	w.expect("MODIFIED ConfigMap b Present 2")
	w.Stop()
	w.expect("closed")
}

// An object that is deleted is reported as not found, and one that is made again as another.
func TestObjectDeletedAndMadeAgain(t *testing.T) {
	b := newBench(t, asAdmin)
	first := b.put("a", "1")
	b.shares.need("n1", b.configMap("a"))
	w := b.watch("n1")
	o := w.expect("ADDED ConfigMap a Present 1")
	if o.ObjectUID != first.UID || o.ObjectVersion != first.ResourceVersion {
		t.Errorf("UID %s, version %s; want %s and %s", o.ObjectUID, o.ObjectVersion, first.UID, first.ResourceVersion)
	}
	w.expect("BOOKMARK true")
	b.delete("a")
	if o := w.expect("MODIFIED ConfigMap a NotFound"); o.Message != `configmap "a" not found` {
		t.Errorf("message %q", o.Message)
	}
	again := b.put("a", "1")
	if o := w.expect("MODIFIED ConfigMap a Present 1"); o.ObjectUID != again.UID || again.UID == first.UID {
		t.Errorf("made again with UID %s, sent %s", again.UID, o.ObjectUID)
	}
}

// What Secrets and ConfigMaps have comes as bytes, with a Secret's type.
func TestContentOfObjects(t *testing.T) {
	b := newBench(t, asAdmin)
	_, err := admin.CoreV1().Secrets(b.namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("{}")},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte{0xff}, 1<<20-200)
	if _, err := admin.CoreV1().ConfigMaps(b.namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"k": "text"}, BinaryData: map[string][]byte{"binary": large, "ascii": []byte("a")},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.shares.need("n1", b.secret("pull"))
	w := b.watch("n1")
	o := w.expect("ADDED Secret pull Present")
	if o.SecretType != corev1.SecretTypeDockerConfigJson || string(o.Data[corev1.DockerConfigJsonKey]) != "{}" || o.Name != "secret.pull" {
		t.Errorf("got %v", o)
	}
	w.expect("BOOKMARK true")
	b.shares.need("n1", b.configMap("large"))
	w.expect("DELETED Secret pull")
	if o := w.expect("ADDED ConfigMap large Present text"); !bytes.Equal(o.Data["binary"], large) {
		t.Errorf("%d bytes came, want %d", len(o.Data["binary"]), len(large))
	} else if !slices.Equal(o.BinaryKeys, []string{"ascii", "binary"}) || string(o.Data["ascii"]) != "a" {
		t.Errorf("binaryKeys %q, ascii %q", o.BinaryKeys, o.Data["ascii"])
	}
}

// Objects that the namespace does not let the manager read hold up no others, name the
// command that gives the right, and come soon after it was given. A Role with the names of
// objects is enough.
func TestForbiddenObjects(t *testing.T) {
	b := newBench(t, asManager)
	b.put("a", "1")
	b.put("b", "1")
	b.put("c", "1")
	b.allow("a")
	b.shares.need("n1", b.configMap("a"), b.configMap("b"), b.configMap("c"))
	w := b.watch("n1")
	w.expectInitial("ADDED ConfigMap a Present 1", "ADDED ConfigMap b Forbidden", "ADDED ConfigMap c Forbidden")
	second := b.watch("n1")
	for {
		text, o := second.next()
		if text != "ADDED ConfigMap b Forbidden" {
			continue
		}
		want := fmt.Sprintf(`the manager may not read configmap "b" in namespace %s; run: kubectl create rolebinding managedworkload-objects`+
			` --clusterrole=managedworkload-objects --serviceaccount=managed:manager -n %s`, b.namespace, b.namespace)
		if o.Message != want {
			t.Errorf("message %q, want %q", o.Message, want)
		}
		break
	}
	b.put("a", "2")
	w.expect("MODIFIED ConfigMap a Present 2")
	b.allow("b", "c")
	got := map[string]bool{}
	for range 2 {
		text, _ := w.next()
		got[text] = true
	}
	if !got["MODIFIED ConfigMap b Present 1"] || !got["MODIFIED ConfigMap c Present 1"] {
		t.Errorf("after the right was given: %v", got)
	}
}

// A right that is taken away ends what the manager reads, and not only what it asks for next:
// the API server lets a watch that it allowed run to its end.
func TestRightTakenAway(t *testing.T) {
	b := newBench(t, asManager)
	b.watchFor = 2 * time.Second
	b.put("a", "1")
	b.allow("a")
	b.shares.need("n1", b.configMap("a"))
	w := b.watch("n1")
	w.expectInitial("ADDED ConfigMap a Present 1")
	if err := admin.RbacV1().RoleBindings(b.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if o := w.expect("MODIFIED ConfigMap a Forbidden"); o.Data != nil {
		t.Error("its content is sent")
	}
}

// Immutable objects are not watched; each is read again now and then.
func TestImmutableObjectIsNotWatched(t *testing.T) {
	b := newBench(t, asAdmin)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "1"}, Immutable: ptr.To(true)}
	if _, err := admin.CoreV1().ConfigMaps(b.namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.put("b", "1")
	b.shares.need("n1", b.configMap("a"), b.configMap("b"))
	w := b.watch("n1")
	w.expectInitial("ADDED ConfigMap a Present 1", "ADDED ConfigMap b Present 1")
	b.delete("a")
	b.put("b", "2")
	w.expect("MODIFIED ConfigMap b Present 2")
	b.mu.Lock()
	b.objects[b.configMap("a")].retry() // its time has come
	b.mu.Unlock()
	w.expect("MODIFIED ConfigMap a NotFound")
}

// A receiver that does not read gets what there is when it does, and holds up no other.
func TestSlowReceiver(t *testing.T) {
	b := newBench(t, asAdmin)
	b.put("a", "0")
	b.shares.need("slow", b.configMap("a"))
	b.shares.need("fast", b.configMap("a"))
	slow, fast := b.watch("slow"), b.watch("fast")
	slow.expectInitial("ADDED ConfigMap a Present 0")
	fast.expectInitial("ADDED ConfigMap a Present 0")
	for i := range 5 {
		b.put("a", fmt.Sprint(i+1))
		fast.expect(fmt.Sprintf("MODIFIED ConfigMap a Present %d", i+1))
	}
	// One event may have been made before the later ones.
	if text, _ := slow.next(); text != "MODIFIED ConfigMap a Present 5" {
		slow.expect("MODIFIED ConfigMap a Present 5")
	}
	if n := len(b.objects); n != 1 {
		t.Errorf("%d objects are watched for two nodes", n)
	}
}

// A node that was not served what it needs yet is not answered: it would take little for all.
func TestWatchBeforeNodeWorkloadsAreKnown(t *testing.T) {
	h := NewHub(nil, nil, nil, &fakeShares{})
	if _, err := h.Watch(t.Context(), "n1"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("before the start: %v", err)
	}
}

// A node has few watches; the newest stay.
func TestWatchesOfANode(t *testing.T) {
	b := newBench(t, asAdmin)
	first := b.watch("n1")
	first.expect("BOOKMARK true")
	for range maxWatches {
		b.watch("n1").expect("BOOKMARK true")
	}
	first.expect("closed")
}

// Where the API server does not answer, the bookmark comes after some seconds, and the object later.
func TestInitialObjectsWithoutAnswer(t *testing.T) {
	b := newBench(t, asAdmin)
	s := newSubscription(b.Hub, "n1")
	key := b.configMap("a")
	b.mu.Lock()
	b.objects[key] = &object{hub: b.Hub, key: key, subscribers: map[*subscription]bool{s: true}}
	s.wanted = map[apiKey]bool{key: true}
	s.begin()
	s.mark(key)
	b.mu.Unlock()
	t.Cleanup(func() { delete(b.objects, key) })
	if _, found := s.next(); found {
		t.Error("something is sent before the answer")
	}
	s.expire()
	taken := func() watch.Event {
		o, _ := s.next()
		s.taken(o)
		return o.event
	}
	event := taken()
	if o, ok := event.Object.(*subresources.NodeObject); !ok || o.State != subresources.ObjectUnavailable || event.Type != "ADDED" {
		t.Errorf("sent %s %v", event.Type, event.Object)
	}
	if event := taken(); event.Type != "BOOKMARK" {
		t.Errorf("%s instead of the bookmark", event.Type)
	}
	b.set(b.objects[key], notFound(key))
	if event := taken(); event.Type != "MODIFIED" {
		t.Errorf("%s when the answer came", event.Type)
	}
}

// An error of the API server takes nothing away that was known, and is passed on where nothing was.
func TestErrorsAndWhatWasKnown(t *testing.T) {
	key := apiKey{Namespace: "a"}
	broken := apierrors.NewInternalError(fmt.Errorf("etcd is away: %s", strings.Repeat("x", 5000)))
	account := func() string { return "" }
	if got := failed(notFound(key), key, broken, account); got != nil {
		t.Errorf("%s takes the place of what was known", got.State)
	}
	if got := failed(nil, key, broken, account); got.State != subresources.ObjectUnavailable || len(got.Message) > maxError {
		t.Errorf("%s with %d bytes", got.State, len(got.Message))
	}
	if got := failed(notFound(key), key, apierrors.NewForbidden(corev1.Resource("secrets"), "a", nil), account); got.State != subresources.ObjectForbidden {
		t.Errorf("a lost right is %s", got.State)
	}
}

// A namespace that forbade several objects gives its right to all: once one can be read, the others
// are read again at once, and none of another namespace.
func TestRightOfANamespace(t *testing.T) {
	h := NewHub(nil, nil, nil, &fakeShares{})
	add := func(namespace, name string) *object {
		key := apiKey{Namespace: namespace, Ref: apiRef{Kind: apiobjects.Secret, Name: name}}
		o := &object{hub: h, key: key, kick: make(chan struct{}, 1), subscribers: map[*subscription]bool{}}
		h.objects[key] = o
		h.set(o, forbidden(key, "binding"))
		return o
	}
	first, second, elsewhere := add("ns", "first"), add("ns", "second"), add("another", "third")
	h.set(first, notFound(first.key))
	for o, want := range map[*object]int{first: 0, second: 1, elsewhere: 0} {
		if got := len(o.kick); got != want {
			t.Errorf("%v is read again %d times, want %d", o.key, got, want)
		}
	}
}

// What an API server answers with, for whatever reason, about another object than the one that was
// asked for is passed on to no node.
func TestAnswerAboutAnotherObject(t *testing.T) {
	key := apiKey{Namespace: "ns", Ref: apiRef{Kind: apiobjects.Secret, Name: "asked"}}
	for of, want := range map[[2]string]bool{{"ns", "asked"}: true, {"ns", "other"}: false, {"another", "asked"}: false} {
		h := NewHub(nil, nil, nil, &fakeShares{})
		o := &object{hub: h, key: key, subscribers: map[*subscription]bool{}}
		h.objects[key] = o
		err := intake{o, func() {}, func() {}}.Update(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: of[0], Name: of[1]}})
		if passed := h.stateOf(o) != nil; passed != want || (err == nil) != want {
			t.Errorf("%s: passed on: %t, error %v", of, passed, err)
		}
	}
}

func TestAvailability(t *testing.T) {
	b := newBench(t, asManager)
	b.put("a", "1")
	b.allow("a", "missing")
	refs := []apiRef{b.configMap("a").Ref, b.secret("hidden").Ref, b.configMap("missing").Ref}
	got, err := b.Availability(t.Context(), b.namespace, refs)
	if err != nil || len(got.NoRight) != 1 || got.NoRight[0].Name != "hidden" || len(got.NotFound) != 1 || got.NotFound[0].Name != "missing" ||
		!strings.HasSuffix(got.Message, "--serviceaccount=managed:manager -n "+b.namespace) {
		t.Errorf("got %+v, %v", got, err)
	}
	// What a connected node needs is known without another question.
	b.shares.need("n1", b.configMap("missing"))
	w := b.watch("n1")
	w.expectInitial("ADDED ConfigMap missing NotFound")
	b.put("missing", "1")
	w.expect("MODIFIED ConfigMap missing Present 1")
	if got, err := b.Availability(t.Context(), b.namespace, refs[2:]); err != nil || len(got.NotFound) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Reading one by its name is not what the hub does: it lists and watches.
func TestAvailabilityAsksForTheRightThatIsNeeded(t *testing.T) {
	b := newBench(t, asManager)
	b.put("a", "1")
	b.allow("a")
	roles, err := admin.RbacV1().Roles(b.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role := &roles.Items[0]
	role.Rules[0].Verbs = []string{"get"}
	if _, err := admin.RbacV1().Roles(b.namespace).Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // the authorizer learns it by a watch
		b.asked = asked{}
		got, err := b.Availability(t.Context(), b.namespace, []apiRef{b.configMap("a").Ref})
		if err == nil && len(got.NoRight) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
}

// An API server that does not answer is asked once in half a minute, and not for long.
func TestAvailabilityWithoutAnswer(t *testing.T) {
	var questions atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		questions.Add(1)
		<-r.Context().Done()
	}))
	defer api.Close()
	h := NewHub(kubernetes.NewForConfigOrDie(&rest.Config{Host: api.URL}).CoreV1(), nil, nil, &fakeShares{})
	begun := time.Now()
	for _, name := range []string{"a", "b", "a"} {
		if _, err := h.Availability(t.Context(), "team", []apiRef{{Kind: apiobjects.Secret, Name: name}}); err == nil {
			t.Errorf("%s is known", name)
		}
	}
	if took := time.Since(begun); questions.Load() != 1 || took > askTimeout+time.Second {
		t.Errorf("asked %d times, %s", questions.Load(), took)
	}
}

// An error about one object is believed for half a minute, and says nothing about the rest.
func TestErrorsOfAskingAge(t *testing.T) {
	var questions atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		questions.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer api.Close()
	h := NewHub(kubernetes.NewForConfigOrDie(&rest.Config{Host: api.URL}).CoreV1(), nil, nil, &fakeShares{})
	for _, name := range []string{"a", "a", "b"} {
		if _, err := h.Availability(t.Context(), "team", []apiRef{{Kind: apiobjects.Secret, Name: name}}); err == nil {
			t.Errorf("%s is known", name)
		}
	}
	if questions.Load() != 2 {
		t.Errorf("asked %d times about two objects", questions.Load())
	}
}

// The command names the accounts and roles of an installation that kustomize renamed.
func TestBinding(t *testing.T) {
	for user, want := range map[string]string{
		"system:serviceaccount:managedworkload-system:managedworkload-manager": "--clusterrole=managedworkload-objects --serviceaccount=managedworkload-system:managedworkload-manager",
		"system:serviceaccount:ops:team-a-managedworkload-manager-2":           "--clusterrole=team-a-managedworkload-objects-2 --serviceaccount=ops:team-a-managedworkload-manager-2",
		"system:serviceaccount:ops:mw":                                         "--clusterrole=managedworkload-objects --serviceaccount=ops:mw",
		"admin":                                                                "--clusterrole=managedworkload-objects --user=admin",
	} {
		if got := bindingOf(user); got != want {
			t.Errorf("%s: %s, want %s", user, got, want)
		}
	}
}

// What is missing is looked for again after half a minute.
func TestAnswersAge(t *testing.T) {
	now := time.Now()
	for state, want := range map[subresources.ObjectState]time.Duration{
		subresources.ObjectNotFound: Recheck, subresources.ObjectForbidden: Recheck, subresources.ObjectPresent: RecheckPresent,
	} {
		a := answer{state: state, at: now}
		if !a.fresh(now.Add(want-time.Second)) || a.fresh(now.Add(want)) {
			t.Errorf("%s is not believed for %s", state, want)
		}
	}
}
