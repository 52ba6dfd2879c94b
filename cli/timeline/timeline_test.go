// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/ends"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

var update = flag.Bool("update", false, "write the golden files")

var start = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

// kill is a kill that began so long after start: hook, wait and stop in seconds, of a
// grace period.
func kill(after time.Duration, container string, trigger v1alpha1.KillTrigger, grace, hook, wait, stop int64) v1alpha1.KillRecord {
	at := func(seconds int64) *metav1.MicroTime {
		return ptr.To(metav1.NewMicroTime(start.Add(after + time.Duration(seconds)*time.Second)))
	}
	k := v1alpha1.KillRecord{
		ID: fmt.Sprint(container, after), Container: container, Trigger: trigger, RequestedBy: "shim", Message: "Stopping container " + container,
		Phase: v1alpha1.KillPhaseDone, Grace: v1alpha1.KillGrace{Seconds: grace, Source: v1alpha1.GraceSourcePod, UsedSeconds: hook + wait + stop},
		StopSignal: "SIGTERM", StopTimeoutSeconds: ptr.To(max(grace-hook-wait, 2)), Outcome: v1alpha1.KillOutcomeGraceful, ExitCode: ptr.To[int32](0),
		StartTime: *at(0), StopTime: at(hook + wait), FinishTime: at(hook + wait + stop),
	}
	if hook > 0 {
		k.PreStop = &v1alpha1.KillPreStop{Handler: "exec", Outcome: v1alpha1.PreStopSucceeded, Seconds: hook}
	}
	if stop >= grace-hook-wait {
		k.Outcome, k.ExitCode = v1alpha1.KillOutcomeForced, ptr.To[int32](137)
	}
	return k
}

// unsignalled makes of a kill one of a container that had left by itself when the shim asked the
// runtime, whose answer took 20 ms, to stop it. during is the phase in which it left, where that is known.
func unsignalled(k *v1alpha1.KillRecord, during v1alpha1.KillPhase) {
	k.Outcome, k.ExitedDuring = v1alpha1.KillOutcomeAlreadyStopped, during
	k.FinishTime = ptr.To(metav1.NewMicroTime(k.StopTime.Add(20 * time.Millisecond)))
	k.Grace.UsedSeconds = int64(k.FinishTime.Sub(k.StartTime.Time) / time.Second)
}

func node(name string, kills ...v1alpha1.KillRecord) v1alpha1.NodeWorkload {
	nw := v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Name: "web-" + name}}
	nw.Spec.NodeName, nw.Status.Kills = name, kills
	return nw
}

// What passes between two steps of the shim is no wait for another container.
func TestMomentsAreNoWaits(t *testing.T) {
	k := kill(0, "app", v1alpha1.TriggerLivenessProbe, 30, 0, 0, 3)
	k.StopTime = ptr.To(metav1.NewMicroTime(k.StartTime.Add(100 * time.Microsecond)))
	for _, s := range segments(&k, k.StartTime.Time, start) {
		if s.Stage == StageWait {
			t.Errorf("a wait of %s", s.To.Sub(s.From))
		}
	}
	k.StopTime = ptr.To(metav1.NewMicroTime(k.StartTime.Add(2 * time.Second)))
	if s := segments(&k, k.StartTime.Time, start); len(s) == 0 || s[0].Stage != StageWait {
		t.Errorf("no wait of 2 s in %v", s)
	}
}

// A signal is named once it was sent to a container that ran, and only what left because of the kill
// left in time.
func TestSignalsAndKinds(t *testing.T) {
	for name, tc := range map[string]struct {
		edit   func(*v1alpha1.KillRecord)
		signal string
		kind   Kind
	}{
		"sent": {func(*v1alpha1.KillRecord) {}, "SIGTERM", KindGraceful},
		"its hook runs": {func(k *v1alpha1.KillRecord) {
			k.Phase, k.Outcome, k.ExitCode, k.StopTime, k.FinishTime = v1alpha1.KillPhasePreStop, "", nil, nil, nil
		}, "", KindUnderWay},
		"it exited during its hook": {func(k *v1alpha1.KillRecord) { k.ExitedDuring = v1alpha1.KillPhasePreStop }, "", KindGraceful},
		"it had left":               {func(k *v1alpha1.KillRecord) { k.Outcome = v1alpha1.KillOutcomeAlreadyStopped }, "", KindUnclear},
	} {
		k := kill(0, "app", v1alpha1.TriggerLivenessProbe, 30, 2, 0, 3)
		tc.edit(&k)
		all := ends.Collect(nil, []v1alpha1.NodeWorkload{node("n1", k)})
		if m := New("shop", "web", all, ends.Omitted{}, start.Add(time.Minute)).Lanes[0].Marks[0]; m.Signal != tc.signal || m.Kind != tc.kind {
			t.Errorf("%s: signal %q, kind %s; want %q, %s", name, m.Signal, m.Kind, tc.signal, tc.kind)
		}
	}
}

// A crash loop shows its last exit, and how often the container was restarted.
func TestCrashLoop(t *testing.T) {
	nw := node("n1")
	nw.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 5}}
	nw.Status.LastExit = &v1alpha1.ContainerExit{Container: "app", ExitCode: 1, Reason: "Error", Summary: "exited 1", FinishTime: ptr.To(metav1.NewTime(start))}
	all := ends.Collect(nil, []v1alpha1.NodeWorkload{nw})
	line := New("shop", "web", all, ends.Omitted{}, start.Add(time.Minute)).Lanes[0].Marks[0].line()
	if want := "ended by itself; exited 1; the last of 5 restarts"; line != want {
		t.Errorf("line %q, want %q", line, want)
	}
}

// sample is a fleet with a roll-out, a failing probe, a crash and a kill under way.
func sample() *Timeline {
	probe := kill(0, "app", v1alpha1.TriggerLivenessProbe, 30, 4, 0, 3)
	probe.Message = "Container app failed liveness probe, will be restarted"
	forced := kill(95*time.Minute, "app", v1alpha1.TriggerDefinitionChanged, 30, 6, 0, 24)
	forced.ChangedFields, forced.RequestedBy = []string{"image"}, "kubectl-client-side-apply"
	cutOff := kill(95*time.Minute+40*time.Second, "app", v1alpha1.TriggerDefinitionChanged, 30, 28, 0, 2)
	cutOff.PreStop.Outcome = v1alpha1.PreStopTimedOut
	sidecar := kill(3*time.Hour, "proxy", v1alpha1.TriggerTermination, 30, 0, 11, 2)
	main := kill(3*time.Hour, "app", v1alpha1.TriggerTermination, 30, 5, 0, 6)
	underWay := kill(26*time.Hour, "app", v1alpha1.TriggerRestartRequested, 45, 0, 0, 9)
	underWay.Phase, underWay.Outcome, underWay.ExitCode, underWay.FinishTime = v1alpha1.KillPhaseStopping, "", nil, nil
	failed := kill(3*time.Hour+20*time.Second, "app", v1alpha1.TriggerTermination, 30, 0, 0, 8)
	failed.Outcome, failed.Error, failed.ExitCode = v1alpha1.KillOutcomeFailed, "rpc error: code = Unavailable", nil
	three := node("node-3.eu-central-1.example.com", sidecar, main, failed)
	three.Status.LastExit = &v1alpha1.ContainerExit{
		Container: "app", ExitCode: 137, Reason: "OOMKilled", Summary: "OOMKilled (137)", FinishTime: ptr.To(metav1.NewTime(start.Add(97 * time.Minute))),
	}
	nodes := []v1alpha1.NodeWorkload{
		node("node-1", probe, forced, kill(26*time.Hour-30*time.Second, "app", v1alpha1.TriggerRestartRequested, 45, 2, 0, 1)),
		node("node-2", cutOff, kill(95*time.Minute+80*time.Second, "proxy", v1alpha1.TriggerResizeRequired, 10, 0, 0, 0), underWay),
		three,
	}
	now := start.Add(26*time.Hour + 9*time.Second)
	return New("shop", "web", ends.Collect(nil, nodes), ends.Omitted{More: 3, NotKept: 12}, now)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	if err := sample().WriteText(&terminal.Printer{W: &out}); err != nil {
		t.Fatal(err)
	}
	golden(t, "sample.txt", out.String())
}

// The legend explains all that may stand in a bar and behind it.
func TestLegend(t *testing.T) {
	var out bytes.Buffer
	if err := sample().WriteText(&terminal.Printer{W: &out}); err != nil {
		t.Fatal(err)
	}
	for _, glyph := range slices.Concat(slices.Collect(maps.Values(glyphs)), slices.Collect(maps.Values(signs))) {
		if !regexp.MustCompile(regexp.QuoteMeta(glyph) + " [a-z]").MatchString(out.String()) {
			t.Errorf("the legend does not explain %q", glyph)
		}
	}
}

func TestPage(t *testing.T) {
	text := html(t, sample())
	golden(t, "sample.html", text)
	checkPage(t, text)
	checkPage(t, html(t, New("shop", "web", nil, ends.Omitted{}, start)))
}

func html(t *testing.T, timeline *Timeline) string {
	t.Helper()
	var out bytes.Buffer
	if err := timeline.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// loads are what a page could fetch or run.
var loads = regexp.MustCompile(`(?i)<(script|img|link|iframe|object|embed|base|form|foreignObject|use|image|animate)\b|\bsrc\s*=|\bhref\s*=\s*"[^#]|url\(|@import|\bon[a-z]+\s*=\s*"|javascript:|https?:`)

// checkPage checks that a page is well-formed, loads nothing, and has the elements of the
// template alone.
func checkPage(t *testing.T, text string) {
	t.Helper()
	if found := loads.FindAllString(strings.ReplaceAll(text, "Content-Security-Policy", ""), -1); len(found) > 0 {
		t.Errorf("the page could load or run something: %q", found)
	}
	decoder := xml.NewDecoder(strings.NewReader(text))
	ids := map[string]bool{}
	var targets []string
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		if element, ok := token.(xml.StartElement); ok {
			for _, a := range element.Attr {
				switch a.Name.Local {
				case "id":
					ids[a.Value] = true
				case "href":
					targets = append(targets, strings.TrimPrefix(a.Value, "#"))
				}
			}
		}
	}
	for _, target := range targets {
		if !ids[target] {
			t.Errorf("a link to #%s leads nowhere", target)
		}
	}
}

// Names and messages come from whoever runs containers.
func TestPageEscapes(t *testing.T) {
	for i, evil := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror="alert(1)">`, `' onload='alert(1)`, `</title></svg><a href="https://example.com">`,
		`javascript:alert(1)`, "\x1b[31m\x00\u202e", `{{.}}`, `&lt;b&gt;`, "\xff\xfe", `]]>`, `--><!--`, `</style><style>@import "https://x"`,
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			k := kill(0, evil, v1alpha1.KillTrigger(evil), 30, 3, 0, 4)
			k.Message, k.RequestedBy, k.StopSignal, k.Reason, k.Error, k.ChangedFields = evil, evil, evil, evil, evil, []string{evil}
			k.PreStop.Handler = evil
			nw := node(evil, k)
			nw.Status.LastExit = &v1alpha1.ContainerExit{Container: evil, Summary: evil}
			text := html(t, New(evil, evil, ends.Collect(nil, []v1alpha1.NodeWorkload{nw}), ends.Omitted{}, start))
			decoder := xml.NewDecoder(strings.NewReader(text))
			for {
				token, err := decoder.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("the page is not well-formed: %v", err)
				}
				element, _ := token.(xml.StartElement)
				for _, a := range element.Attr {
					if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "src" || a.Name.Local == "href" && !strings.HasPrefix(a.Value, "#e") {
						t.Errorf("<%s> has %s=%q", element.Name.Local, a.Name.Local, a.Value)
					}
				}
				switch element.Name.Local {
				case "script", "img", "iframe", "link":
					t.Errorf("the page has a <%s>", element.Name.Local)
				}
			}
			if strings.ContainsAny(text, "\x00\x1b\u202e") {
				t.Error("the page has control characters")
			}
		})
	}
}

// A clock that was set during a kill moves no bar.
func TestSegments(t *testing.T) {
	tests := map[string]struct {
		edit func(*v1alpha1.KillRecord)
		want string
	}{
		"hook, stop, left":         {want: "preStop 4s, stop 3s, left 23s"},
		"clock set back":           {edit: func(k *v1alpha1.KillRecord) { k.FinishTime.Time = start.Add(-time.Hour) }, want: "preStop 4s, stop 3s, left 23s"},
		"clock set ahead":          {edit: func(k *v1alpha1.KillRecord) { k.FinishTime.Time = start.Add(time.Hour) }, want: "preStop 4s, stop 3s, left 23s"},
		"clock set before the end": {edit: func(k *v1alpha1.KillRecord) { k.StopTime.Time = start.Add(time.Hour) }, want: "preStop 4s, wait 3s, left 23s"},
		"skipped hook":             {edit: func(k *v1alpha1.KillRecord) { k.PreStop.Outcome = v1alpha1.PreStopSkipped }, want: "wait 4s, stop 3s, left 23s"},
		"more than the grace":      {edit: func(k *v1alpha1.KillRecord) { k.Grace.Seconds = 5 }, want: "preStop 4s, stop 3s"},
		"a hook that runs": {edit: func(k *v1alpha1.KillRecord) {
			k.Phase, k.PreStop.Outcome, k.StopTime = v1alpha1.KillPhasePreStop, "", nil
		}, want: "preStop 20s, left 10s"},
		"exited during its hook": {edit: func(k *v1alpha1.KillRecord) {
			unsignalled(k, v1alpha1.KillPhasePreStop)
		}, want: "preStop 4s, left 26s"},
		"exited while it waited": {edit: func(k *v1alpha1.KillRecord) {
			unsignalled(k, v1alpha1.KillPhaseWaitingForTurn)
			k.PreStop = nil
		}, want: "wait 4s, left 26s"},
		"had already exited": {edit: func(k *v1alpha1.KillRecord) {
			unsignalled(k, "")
			k.PreStop, k.StopTime.Time = nil, start.Add(5*time.Millisecond)
			k.FinishTime.Time = start.Add(25 * time.Millisecond)
		}, want: "left 30s"},
		"exited while it waited for a moment": {edit: func(k *v1alpha1.KillRecord) {
			unsignalled(k, v1alpha1.KillPhaseWaitingForTurn)
			k.PreStop, k.StopTime, k.FinishTime.Time = nil, nil, start.Add(500*time.Millisecond)
		}, want: "left 30s"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			k := kill(0, "app", v1alpha1.TriggerTermination, 30, 4, 0, 3)
			if tc.edit != nil {
				tc.edit(&k)
			}
			var got []string
			for _, s := range segments(&k, start, start.Add(20*time.Second)) {
				got = append(got, fmt.Sprintf("%s %s", s.Stage, s.To.Sub(s.From)))
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("segments (-want +got):\n%s", diff)
			}
		})
	}
}
