// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package static

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// station is a source with its directories, and what it has said.
type station struct {
	*Source
	t          *testing.T
	dir, state string
	updates    []string
	refused    []string
	now        time.Time
	// lost are workloads that have no worker.
	lost map[types.UID]bool
	// unfit is why the node can run nothing of an image.
	unfit map[string]error
	// known are the workloads that were handed over.
	known sync.Map
	// hangs is an image of which a try does not end, and panics one at which it panics.
	hangs, panics string
	// once is an image that one workload at a time can run, and holder the UID of that one.
	once   string
	holder atomic.Value
	gaveUp chan types.UID
	// shown are the summaries that mirrors were to show.
	shown []string
}

func newStation(t *testing.T) *station {
	t.Helper()
	s := &station{t: t, dir: t.TempDir(), state: t.TempDir(), now: time.Now().Add(time.Hour), lost: map[types.UID]bool{}, gaveUp: make(chan types.UID, 10)}
	s.restart(s.dir)
	return s
}

// restart makes the source of another process.
func (s *station) restart(dir string) {
	s.t.Helper()
	if s.Source != nil {
		s.keepNow()
	}
	source, err := New(Config{
		Dir: dir, StateDir: s.state, Node: "n1", Log: logr.Discard(),
		Update: func(nw *template.Workload) {
			verb := "run"
			if nw.DeletionTimestamp != nil {
				verb = "end by " + strings.ReplaceAll(nw.Annotations[v1alpha1.AnnotationRequestedBy], s.dir+"/", "")
			}
			s.known.Store(nw.UID, true)
			if image := nw.Template.Spec.Containers[0].Image; image == s.once && nw.DeletionTimestamp == nil {
				s.holder.Store(nw.UID)
			}
			s.updates = append(s.updates, nw.Name+" "+nw.Template.Spec.Containers[0].Image+": "+verb)
		},
		Has: func(uid types.UID) bool {
			_, known := s.known.Load(uid)
			return known && !s.lost[uid]
		},
		Try: func(nw *template.Workload, runs types.UID) func(context.Context) error {
			if _, known := s.known.Load(runs); !known {
				s.t.Errorf("%s does not run", runs)
			}
			return func(ctx context.Context) error { return s.try(ctx, nw) }
		},
		GaveUp:    func(uid types.UID) { s.gaveUp <- uid },
		Published: func(_ types.UID, st *v1alpha1.NodeWorkloadStatus) { s.shown = append(s.shown, st.Summary) },
		Refused:   func(m string) { s.refused = append(s.refused, strings.ReplaceAll(m, s.dir+"/", "")) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.Source = source
	s.HandOver()
}

// try tries what a file says now.
func (s *station) try(ctx context.Context, nw *template.Workload) error {
	switch image := nw.Template.Spec.Containers[0].Image; image {
	case s.hangs:
		<-ctx.Done()
		return ctx.Err()
	case s.once:
		if holder := s.holder.Load(); holder != nil {
			return fmt.Errorf("workload %s has it", holder)
		}
		return nil
	case s.panics:
		panic("no such thing")
	default:
		return s.unfit[image]
	}
}

// keepNow writes what the goroutine of Run would.
func (s *station) keepNow() {
	s.t.Helper()
	if err := s.keepAll(); err != nil {
		s.t.Error(err)
	}
}

func (s *station) write(name, content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *station) remove(name string) {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

// expect looks at the directory and compares what the workers were handed.
func (s *station) expect(want ...string) {
	s.t.Helper()
	s.look(s.t.Context(), s.now)
	s.endTries()
	s.lookTwice()
	got := s.updates
	s.updates = nil
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("handed to the workers (-want +got):\n%s", diff)
	}
}

// lookTwice looks at what has changed, and once more when what is gone has been gone for long enough.
func (s *station) lookTwice() {
	s.look(s.t.Context(), s.now)
	s.now = s.now.Add(2 * settled)
	s.look(s.t.Context(), s.now)
}

// endTries waits until a try of each changed file has ended.
func (s *station) endTries() {
	for _, t := range s.trials {
		for {
			if _, err := t.latest(); !errors.Is(err, errOnTrial) {
				break
			}
			await(s.t, s.kicked, "the end of a try")
		}
	}
}

// expectRefused compares what is refused, in whichever order tries have ended.
func (s *station) expectRefused(want ...string) {
	s.t.Helper()
	s.look(s.t.Context(), s.now)
	got := s.refused
	s.refused = nil
	if len(got) != len(want) {
		s.t.Fatalf("refused %q, want %d", got, len(want))
	}
	for _, text := range want {
		i := slices.IndexFunc(got, func(refused string) bool { return strings.Contains(refused, text) })
		if i < 0 {
			s.t.Errorf("refused %q, want %q", got, text)
			continue
		}
		got = slices.Delete(got, i, i+1)
	}
}

func (s *station) uids() []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.workloads))
}

func managed(name, image string) string {
	return "apiVersion: managedworkload.dev/v1alpha1\nkind: ManagedWorkload\nmetadata: {name: " + name + "}\n" +
		"spec:\n  template:\n    spec:\n      containers:\n      - name: c\n        image: " + image + "\n"
}

func nodeWorkload(name, image string) string {
	return strings.Replace(managed(name, image), "ManagedWorkload", "NodeWorkload", 1)
}

func TestAFileRunsChangesAndEnds(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	s.expect()
	s.write("a.yaml", "# a comment\n"+nodeWorkload("web", "a:1"))
	s.expect() // the same content
	first := s.uids()
	s.write("a.yaml", nodeWorkload("web", "a:22"))
	s.expect("web a:1: end by change of the file a.yaml", "web a:22: run")
	if nw := s.Live(types.NamespacedName{Namespace: "default", Name: "web"}); nw == nil || nw.UID == first[0] {
		t.Errorf("the live one is %v", nw)
	}
	if err := s.Release(first[0]); err != nil {
		t.Fatal(err)
	}
	s.remove("a.yaml")
	s.expect("web a:22: end by removal of the file a.yaml")
	s.expect()
}

// A name that editors use for what is not whole yet, and one that was moved.
func TestHiddenAndMovedFiles(t *testing.T) {
	s := newStation(t)
	s.write(".a.yaml.swp", nodeWorkload("web", "a:1"))
	s.expect()
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	if err := os.Rename(filepath.Join(s.dir, "a.yaml"), filepath.Join(s.dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	s.expect()
	s.remove("b.yaml")
	s.expect("web a:1: end by removal of the file b.yaml")
}

func TestWhatRunsIsKeptWhileItsFileIsNotAccepted(t *testing.T) {
	broken := map[string]string{
		"not YAML":        "a: b\n\tc: d\n",
		"cut":             "",
		"unknown field":   nodeWorkload("web", "a:1") + "  typo: 1\n",
		"another node's":  strings.Replace(nodeWorkload("web", "a:1"), "spec:\n", "spec:\n  nodeName: n2\n", 1),
		"with a Secret":   nodeWorkload("web", "a:1") + "        envFrom: [{secretRef: {name: s}}]\n",
		"with an account": strings.Replace(nodeWorkload("web", "a:1"), "      containers:", "      serviceAccountName: s\n      containers:", 1),
		"no DNS name":     nodeWorkload("Web_1", "a:1"),
		"no such volume":  nodeWorkload("web", "a:1") + "        volumeMounts: [{name: v, mountPath: /x}]\n",
		"no such policy":  strings.Replace(nodeWorkload("web", "a:1"), "      containers:", "      restartPolicy: Sometimes\n      containers:", 1),
	}
	for name, content := range broken {
		t.Run(name, func(t *testing.T) {
			s := newStation(t)
			s.write("a.yaml", nodeWorkload("web", "a:1"))
			s.expect("web a:1: run")
			s.write("a.yaml", content)
			s.expect()
			if len(s.refused) != 1 || !strings.HasPrefix(s.refused[0], "a.yaml is not accepted") {
				t.Errorf("refused %q", s.refused)
			}
			s.restart(s.dir)
			s.expect("web a:1: run") // handed over
			if s.Known("static-unknown") != true {
				t.Error("any workload may be from a file that is not accepted")
			}
			s.remove("a.yaml")
			s.expect("web a:1: end by removal of the file a.yaml")
			if s.Known("static-unknown") {
				t.Error("a workload that no file is about is known")
			}
		})
	}
}

func TestReasonsNameFieldAndLine(t *testing.T) {
	in := func(name, field string) string {
		return strings.Replace(nodeWorkload(name, "a:1"), "      containers:", "      "+field+"\n      containers:", 1)
	}
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1")+"  typo: 1\n")
	s.write("b.yaml", nodeWorkload("db", "a:1")+"        envFrom: [{secretRef: {name: s}}]\n")
	s.write("c.yaml", in("c", "runtimeClassName: kata"))
	s.write("d.yaml", in("d", "imagePullSecrets: [{name: s}]"))
	s.write("e.yaml", in("e", "serviceAccountName: s"))
	s.write("f.yaml", in("f", "volumes: [{name: v, configMap: {name: s}}]"))
	s.write("g.yaml", in("g", "automountServiceAccountToken: true"))
	s.write("h.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: a}]}\n")
	s.write("i.yaml", nodeWorkload("i", "a:1")+"        ports:\n        - {containerPort: 80}\n        - {containerPort: 99999}\n")
	s.write("j.yaml", strings.Replace(nodeWorkload("j", "a:1"), "    spec:", "    metadata:\n      annotations:\n        container.apparmor.security.beta.kubernetes.io/c: unconfined\n    spec:", 1))
	s.expectRefused(
		"line 10: ",
		"line 10: spec.template.spec.containers[0].envFrom[0].secretRef: Forbidden: a static workload has no API server to get ConfigMaps, Secrets and tokens from: use env with a value",
		"line 7: spec.template.spec.runtimeClassName: Forbidden: a static workload has no API server to get runtime classes from: leave it out",
		"line 7: spec.template.spec.imagePullSecrets: Forbidden: a static workload has no API server to get ConfigMaps, Secrets and tokens from: give the runtime the login",
		"line 7: spec.template.spec.serviceAccountName: Forbidden: a static workload has no service account: leave it out",
		"line 7: spec.template.spec.volumes[0].configMap: Forbidden: a static workload has no API server",
		"line 7: spec.template.spec.automountServiceAccountToken: Forbidden: a static workload has no API server to get ConfigMaps, Secrets and tokens from: leave it out",
		`line 2: apiVersion "v1" with kind "Pod": want "managedworkload.dev/v1alpha1" with NodeWorkload or ManagedWorkload; keep metadata.name`,
		"line 12: spec.template.spec.containers[0].ports[1].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive",
		"spec.template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: Forbidden: a static workload has no API server to make a profile of it: use securityContext.appArmorProfile",
	)
	s.expectRefused() // each reason once
}

// The directory itself is away, as when it is on a disk that is not mounted yet.
func TestAMissingDirectoryEndsNothing(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	if err := os.Rename(s.dir, s.dir+"-away"); err != nil {
		t.Fatal(err)
	}
	s.expect()
	if len(s.refused) != 1 {
		t.Errorf("refused %q", s.refused)
	}
	if err := os.Rename(s.dir+"-away", s.dir); err != nil {
		t.Fatal(err)
	}
	s.expect()
}

// A shim that was restarted ends as it was written what lost its file meanwhile, and a
// shim without the flag ends all.
func TestEndsAfterARestart(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.write("b.yaml", nodeWorkload("db", "a:1"))
	s.expect("db a:1: run", "web a:1: run")
	s.remove("a.yaml")
	s.restart(s.dir)
	s.expect("db a:1: run", "web a:1: end by removal of the file a.yaml", "web a:1: run")
	s.restart("")
	s.updates = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"db a:1: end by a shim without --static-dir"}, s.updates); diff != "" {
		t.Errorf("handed to the workers (-want +got):\n%s", diff)
	}
}

// What was kept of a node that had another name, as on a disk that was copied, or without its template, does not run.
func TestKeptThatCannotRun(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"of another node":      func(kept string) string { return strings.Replace(kept, "nodeName: n1", "nodeName: n2", 1) },
		"without its template": func(kept string) string { return strings.Replace(kept, "\ntemplate:", "\nother:", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStation(t)
			s.write("a.yaml", nodeWorkload("web", "a:1"))
			s.expect("web a:1: run")
			s.keepNow()
			file := s.pathOf(s.uids()[0])
			kept, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			other := edit(string(kept))
			if err := os.WriteFile(file, []byte(other), 0o600); err != nil || other == string(kept) {
				t.Fatalf("kept %q: %v", kept, err)
			}
			s.Source = nil // it ended before
			s.restart(t.TempDir())
			s.expect()
		})
	}
}

func TestTwoFilesOfOneName(t *testing.T) {
	s := newStation(t)
	s.write("b.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	s.write("a.yaml", nodeWorkload("web", "a:2"))
	s.expect() // what runs is not replaced
	if len(s.refused) != 1 || !strings.Contains(s.refused[0], "b.yaml has a workload default/web too") {
		t.Errorf("refused %q", s.refused)
	}
	s.remove("b.yaml")
	s.expect("web a:1: end by removal of the file b.yaml", "web a:2: run")
}

// A file that changes to the name of another's workload is not accepted: what runs from it is kept, and keeps its name.
func TestAFileThatChangesToATakenName(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.write("b.yaml", nodeWorkload("db", "a:1"))
	s.expect("db a:1: run", "web a:1: run")
	s.write("a.yaml", nodeWorkload("db", "a:2"))
	s.write("c.yaml", nodeWorkload("web", "a:3"))
	s.expect()
	s.expectRefused("c.yaml is not accepted, and what runs from it is kept: metadata.name: a.yaml has a workload default/web too",
		"a.yaml is not accepted, and what runs from it is kept: metadata.name: b.yaml has a workload default/db too")
	if reason, _ := s.waiting(); reason != v1alpha1.ReasonFileRefused {
		t.Errorf("UpdateWaiting: %q", reason)
	}
	s.remove("b.yaml")
	s.expect("db a:1: end by removal of the file b.yaml", "db a:2: run", "web a:1: end by change of the file a.yaml", "web a:3: run")
}

// A file that has just been written may not be whole.
func TestAFileSettles(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.now = time.Now()
	if again := s.look(s.t.Context(), s.now); again != settled || len(s.updates) != 0 {
		t.Errorf("looks again after %v, handed over %q", again, s.updates)
	}
	s.now = s.now.Add(2 * settled)
	s.expect("web a:1: run")
}

// The status is kept beside the object, for people and for the next process.
func TestStatusIsKept(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", managed("web", "a:1"))
	s.look(s.t.Context(), s.now)
	uid := s.uids()[0]
	if err := s.Publish(uid, &v1alpha1.NodeWorkloadStatus{Phase: corev1.PodRunning}); err != nil {
		t.Fatal(err)
	}
	s.keepNow()
	data, err := os.ReadFile(filepath.Join(s.state, string(uid)+".yaml"))
	if err != nil || !strings.Contains(string(data), "phase: Running") || !strings.Contains(string(data), filepath.Join(s.dir, "a.yaml")) {
		t.Errorf("kept %s (%v)", data, err)
	}
	s.restart(s.dir)
	if nw := s.workloads[uid].nw; nw.Status.Phase != corev1.PodRunning || len(nw.Annotations) != 0 {
		t.Errorf("read %+v", nw)
	}
	if err := s.Release(uid); err != nil {
		t.Fatal(err)
	}
	s.keepNow()
	if _, err := os.Stat(filepath.Join(s.state, string(uid)+".yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of a workload that is gone: %v", err)
	}
}

// What a shutdown of the node ended runs again from its file: no manager replaces it.
func TestRunsAgainAfterAShutdown(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", managed("a", "image:1"))
	s.expect("a-n1-98f2abf0c4 image:1: run")
	uid := s.uids()[0]
	publish := func(reason string, state corev1.ContainerState) {
		t.Helper()
		st := &v1alpha1.NodeWorkloadStatus{Phase: corev1.PodFailed, Reason: reason, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: state}}}
		if err := s.Publish(uid, st); err != nil {
			t.Fatal(err)
		}
	}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	publish("DeadlineExceeded", ended)
	s.expect()
	publish("Terminated", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	s.expect()
	publish("Terminated", ended)
	s.expect("a-n1-98f2abf0c4 image:1: end by shim (it runs again after a shutdown of the node)")
	s.expect()
	if err := s.Release(uid); err != nil {
		t.Fatal(err)
	}
	s.keepNow()
	s.expect("a-n1-98f2abf0c4 image:1: run")
}

// A file on its way from one name to another, as editors save it, and its backup.
func TestASavedFileEndsNothing(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	if err := os.Rename(filepath.Join(s.dir, "a.yaml"), filepath.Join(s.dir, "a.yaml~")); err != nil {
		t.Fatal(err)
	}
	if again := s.look(s.t.Context(), s.now); again != settled || len(s.updates) != 0 {
		t.Errorf("looks again after %v, handed over %q", again, s.updates)
	}
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect()
}

// A workload that was handed over while its worker was on its way out is handed over again.
func TestAWorkloadWithoutAWorkerIsHandedOverAgain(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", nodeWorkload("web", "a:1"))
	s.expect("web a:1: run")
	s.lost[s.uids()[0]] = true
	s.look(s.t.Context(), s.now)
	if diff := cmp.Diff([]string{"web a:1: run"}, s.updates); diff != "" {
		t.Errorf("handed to the workers (-want +got):\n%s", diff)
	}
}

// What comes before the one document is not what is run.
func TestTheUIDIsThatOfTheDocument(t *testing.T) {
	s := newStation(t)
	s.write("a.yaml", "---\n# licence\n---\n"+nodeWorkload("web", "a:1"))
	s.write("b.yaml", "---\n# licence\n---\n"+nodeWorkload("db", "a:1"))
	s.expect("db a:1: run", "web a:1: run")
}
