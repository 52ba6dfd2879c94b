// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/mirror"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// bench is a manager whose node n1 reports.
type bench struct {
	*Reconciler
	t      *testing.T
	c      client.Client
	events *record.FakeRecorder
	// asked is how often the API server was asked to make a mirror, and refuses says no.
	asked   int
	refuses error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, events: record.NewFakeRecorder(1000)}
	b.c = fake.NewClientBuilder().WithScheme(managertest.Scheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if _, ok := o.(*v1alpha1.NodeWorkload); !ok {
				return c.Create(ctx, o, options...)
			}
			b.asked++
			if b.refuses != nil {
				return b.refuses
			}
			o.SetUID(types.UID(fmt.Sprintf("made-%d", b.asked)))
			err := c.Create(ctx, o, options...)
			o.SetResourceVersion(b.version()) // as the API server counts: for all objects
			return err
		},
	}).Build()
	shims := fleet.NewShims("system")
	b.Reconciler = NewReconciler(b.c, b.c, b.events, fleet.NewIndex(fleet.NewLedger(shims), shims))
	b.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "open", Labels: map[string]string{v1alpha1.LabelAllowMirrors: "true"}}})
	b.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shut", Labels: map[string]string{v1alpha1.LabelAllowMirrors: "no"}}})
	b.create(managertest.Lease(time.Now()))
	return b
}

func (b *bench) version() string { return strconv.Itoa(1000 + b.asked) }

func (b *bench) create(o client.Object) {
	b.t.Helper()
	if err := b.c.Create(context.Background(), o); err != nil {
		b.t.Fatal(err)
	}
}

func workload(namespace, name string) mirror.Workload {
	return mirror.Workload{Namespace: namespace, Name: name, UID: types.UID("static-" + name), Containers: []corev1.Container{{Name: "c", Image: "i"}}}
}

// add makes a NodeWorkload that is as a mirror, but for a change.
func (b *bench) add(node, name string, change func(*v1alpha1.NodeWorkload)) mirror.Mirror {
	b.t.Helper()
	nw := workload("open", name).Object(node)
	change(nw)
	b.create(nw)
	return mirror.Mirror{Namespace: nw.Namespace, Name: nw.Name, UID: nw.UID}
}

func unchanged(*v1alpha1.NodeWorkload) {}

// follow lets the index see what there is.
func (b *bench) follow() {
	b.t.Helper()
	list := &v1alpha1.NodeWorkloadList{}
	if err := b.c.List(context.Background(), list); err != nil {
		b.t.Fatal(err)
	}
	list.ResourceVersion = b.version()
	b.index.Reset(list)
}

// get reads the mirror of a workload.
func (b *bench) get(name string) *v1alpha1.NodeWorkload {
	b.t.Helper()
	nw := workload("open", name).Object("n1")
	if err := b.c.Get(context.Background(), client.ObjectKeyFromObject(nw), nw); err != nil {
		b.t.Fatal(err)
	}
	nw.ResourceVersion = b.version()
	return nw
}

// report has the node's Lease say something, and the manager look at it.
func (b *bench) report(report mirror.Report) ctrl.Result {
	b.t.Helper()
	text, err := json.Marshal(report)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.reportText(string(text))
}

func (b *bench) reportText(text string) ctrl.Result {
	b.t.Helper()
	lease := managertest.Lease(time.Now())
	if err := b.c.Get(context.Background(), client.ObjectKeyFromObject(lease), lease); err != nil {
		b.t.Fatal(err)
	}
	lease.Annotations = map[string]string{v1alpha1.AnnotationStaticMirrors: text}
	if err := b.c.Update(context.Background(), lease); err != nil {
		b.t.Fatal(err)
	}
	result, err := b.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(lease)})
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// expect compares the workloads that have a mirror on n1.
func (b *bench) expect(when string, want ...string) {
	b.t.Helper()
	list := &v1alpha1.NodeWorkloadList{}
	if err := b.c.List(context.Background(), list); err != nil {
		b.t.Fatal(err)
	}
	var got []string
	for i := range list.Items {
		if nw := &list.Items[i]; nw.Spec.NodeName == "n1" && mirror.Is(nw) {
			got = append(got, nw.Namespace+"/"+strings.TrimPrefix(string(mirror.Of(nw)), "static-"))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// said are the events that came since the last time.
func (b *bench) said() string {
	var all []string
	for len(b.events.Events) > 0 {
		all = append(all, <-b.events.Events)
	}
	return strings.Join(all, "\n")
}

// A node names the namespaces of its workloads itself. Mirrors are made where an administrator
// allows it; who looks at the Node sees why others have none, once.
func TestMirrorsAreMadeWhereANamespaceAllowsThem(t *testing.T) {
	b := newBench(t)
	b.follow()
	asks := mirror.Report{Create: []mirror.Workload{workload("open", "a"), workload("shut", "b"), workload("nowhere", "c")}}
	b.report(asks)
	b.expect("one namespace allows it", "open/a")
	want := `Warning StaticMirrorRefused Static workload shut/b runs and is not shown in the API: the namespace "shut" has no label managedworkload.dev/allow-static-mirrors=true
Warning StaticMirrorRefused Static workload nowhere/c runs and is not shown in the API: there is no namespace "nowhere"`
	if diff := cmp.Diff(want, b.said()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	b.follow()
	asks.Create = asks.Create[1:]
	b.report(asks)
	if said := b.said(); said != "" {
		t.Errorf("said again: %s", said)
	}
	b.follow()
	shut := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shut", Labels: map[string]string{v1alpha1.LabelAllowMirrors: "true"}}}
	if err := b.c.Update(t.Context(), shut); err != nil {
		t.Fatal(err)
	}
	b.report(asks)
	b.expect("another allows it now", "open/a", "shut/b")
}

// A node has a hundred mirrors at most, however many reports it writes before the manager sees
// those that it made. What goes makes room.
func TestANodeHasSoManyMirrors(t *testing.T) {
	b := newBench(t)
	var have []string
	var first mirror.Mirror
	for i := range mirror.Max - 1 {
		name := fmt.Sprintf("w-%02d", i)
		made := b.add("n1", name, unchanged)
		if i == 0 {
			first = made
		}
		have = append(have, "open/"+name)
	}
	b.add("n2", "of-another-node", unchanged)
	b.add("n1", "ordinary", func(nw *v1alpha1.NodeWorkload) { nw.Labels = nil })
	b.follow()
	x, y, z := workload("open", "x"), workload("open", "y"), workload("open", "z")
	b.report(mirror.Report{Create: []mirror.Workload{x, y}})
	b.expect("one more", append(have, "open/x")...)
	if said := b.said(); !strings.Contains(said, "open/y") || !strings.Contains(said, "the node has 100 mirrors") {
		t.Errorf("said %q", said)
	}
	if result := b.report(mirror.Report{Create: []mirror.Workload{z}}); result.RequeueAfter == 0 {
		t.Error("it does not wait to see what it made")
	}
	b.expect("none more", append(have, "open/x")...)
	b.follow()
	b.report(mirror.Report{Create: []mirror.Workload{y, z}, Delete: []mirror.Mirror{first}})
	b.expect("one has made room", append(have[1:], "open/x", "open/y")...)
}

// A mirror that was deleted makes room, whether the watch shows that or not, and whoever deleted it. One
// that a finalizer keeps does not.
func TestRoomOfDeletedMirrors(t *testing.T) {
	b := newBench(t)
	var have []mirror.Mirror
	for i := range mirror.Max {
		have = append(have, b.add("n1", fmt.Sprintf("w-%02d", i), func(nw *v1alpha1.NodeWorkload) {
			if i == 2 {
				nw.Finalizers = []string{"example.com/kept"}
			}
		}))
	}
	b.follow()
	b.report(mirror.Report{Delete: have[:1]})
	x, y, z := workload("open", "x"), workload("open", "y"), workload("open", "z")
	b.report(mirror.Report{Create: []mirror.Workload{x}})
	if said := b.said(); said != "" {
		t.Errorf("the watch does not show the deletion: said %q", said)
	}
	nw := &v1alpha1.NodeWorkload{}
	if err := errors.Join(b.c.Get(t.Context(), client.ObjectKey{Namespace: "open", Name: have[1].Name}, nw), b.c.Delete(t.Context(), nw)); err != nil {
		t.Fatal(err)
	}
	b.index.Observe(b.get("x"))
	b.report(mirror.Report{Create: []mirror.Workload{y}, Delete: have[1:2]})
	if said := b.said(); said != "" {
		t.Errorf("another one deleted it: said %q", said)
	}
	b.index.Observe(b.get("y"))
	b.report(mirror.Report{Delete: have[2:3]})
	b.follow()
	b.report(mirror.Report{Create: []mirror.Workload{z}})
	if said := b.said(); !strings.Contains(said, "the node has 100 mirrors") {
		t.Errorf("a mirror that ends and is there: said %q", said)
	}
}

// Mirrors that are to be deleted, and are not yet for a bound on requests, are no reason to refuse others.
func TestMirrorsThatAreDeletedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var have []mirror.Mirror
		for i := range mirror.Max {
			have = append(have, b.add("n1", fmt.Sprintf("w-%02d", i), unchanged))
		}
		b.follow()
		for b.memos.of("n1").writes.TryAccept() {
		}
		asks := mirror.Report{Create: []mirror.Workload{workload("open", "x")}, Delete: have[:1]}
		result := b.report(asks)
		if said := b.said(); result.RequeueAfter == 0 || said != "" {
			t.Errorf("looks again after %s, said %q", result.RequeueAfter, said)
		}
		time.Sleep(again)
		before := b.asked
		b.report(asks)
		if b.asked != before+1 {
			t.Error("the room of the deleted one is not used")
		}
	})
}

// What was made in an etcd that is gone is waited for once.
func TestMirrorsAfterARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.follow()
		b.report(mirror.Report{Create: []mirror.Workload{workload("open", "x")}})
		known := b.memos.of("n1")
		known.written = "100000"
		b.follow() // what another etcd has
		if b.report(mirror.Report{Create: []mirror.Workload{workload("open", "y")}}); b.asked != 1 {
			t.Error("it does not wait for what it made")
		}
		time.Sleep(unseen)
		b.report(mirror.Report{Create: []mirror.Workload{workload("open", "y")}})
		b.follow()
		b.report(mirror.Report{Create: []mirror.Workload{workload("open", "z")}})
		b.expect("after one wait", "open/x", "open/y", "open/z")
	})
}

// A node that has its mirrors made and deleted all the time does so at its own expense, and at a
// bounded one.
func TestANodeThatAsksAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		start := time.Now()
		for i := range 240 {
			b.follow()
			list := &v1alpha1.NodeWorkloadList{}
			if err := b.c.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			asks := mirror.Report{Create: []mirror.Workload{workload("open", fmt.Sprintf("w-%d", i))}}
			for _, nw := range list.Items {
				asks.Delete = append(asks.Delete, mirror.Mirror{Namespace: nw.Namespace, Name: nw.Name, UID: nw.UID})
			}
			b.report(asks)
			time.Sleep(250 * time.Millisecond)
		}
		if most := nodeBurst + int(time.Since(start).Seconds()); b.asked > most {
			t.Errorf("asked %d times within a minute, want %d at most", b.asked, most)
		}
	})
}

// What the API server refuses is asked for more and more seldom, although each renewal of the
// Lease asks for it.
func TestRefusedMirrorsAreAskedForSeldom(t *testing.T) {
	forbidden := apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("nodeworkloads").GroupResource(), "x", errors.New("exceeded quota"))
	tests := map[string]func(*bench){
		"a quota": func(b *bench) { b.refuses = forbidden },
		"a name that is taken": func(b *bench) {
			b.add("n1", "w", func(nw *v1alpha1.NodeWorkload) { nw.Labels = nil })
		},
	}
	for name, set := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				set(b)
				start := time.Now()
				var at []int
				for range 190 {
					b.follow()
					before := b.asked
					b.report(mirror.Report{Create: []mirror.Workload{workload("open", "w")}})
					if b.asked > before {
						at = append(at, int(time.Since(start).Seconds()))
					}
					time.Sleep(10 * time.Second)
				}
				if diff := cmp.Diff([]int{0, 10, 30, 70, 150, 310, 630, 1230, 1830}, at); diff != "" {
					t.Errorf("asked after seconds (-want +got):\n%s", diff)
				}
				if said := b.said(); strings.Count(said, "\n") > 0 || said == "" {
					t.Errorf("said:\n%s", said)
				}
			})
		})
	}
}

// A shim that has not seen its new mirror asks for it once more. That is no refusal.
func TestAMirrorThatIsThere(t *testing.T) {
	b := newBench(t)
	b.add("n1", "w", unchanged)
	b.follow()
	b.report(mirror.Report{Create: []mirror.Workload{workload("open", "w")}})
	if said := b.said(); said != "" {
		t.Errorf("said %q", said)
	}
}

// A report deletes mirrors of its own node, and nothing else.
func TestOnlyMirrorsOfTheNodeAreDeleted(t *testing.T) {
	b := newBench(t)
	b.follow()
	another := b.add("n1", "another", unchanged)
	another.UID = "of-before"
	b.report(mirror.Report{Delete: []mirror.Mirror{
		b.add("n1", "mine", unchanged),
		b.add("n1", "ordinary", func(nw *v1alpha1.NodeWorkload) { nw.Labels = nil }),
		b.add("n2", "of-another-node", unchanged),
		another,
	}})
	b.expect("mine is gone", "open/another")
	list := &v1alpha1.NodeWorkloadList{}
	if err := b.c.List(t.Context(), list); err != nil || len(list.Items) != 3 {
		t.Errorf("%d NodeWorkloads, want 3 (%v)", len(list.Items), err)
	}
}

// What a node sends fills no log.
func TestReportsThatCannotBeRead(t *testing.T) {
	b := newBench(t)
	b.follow()
	for i := range 200 {
		b.reportText(fmt.Sprintf("{%d", i%3) + strings.Repeat("x", 1000))
	}
	said := b.said()
	if lines := strings.Split(said, "\n"); len(lines) > wordBurst+1 || len(said) > 1000*wordBurst || !strings.Contains(said, "cannot be read") {
		t.Errorf("%d lines, %d bytes: %.300s", len(lines), len(said), said)
	}
}
