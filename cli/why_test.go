// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/ends"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

var updateGolden = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *updateGolden {
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

// killed makes a workload that was killed on two nodes.
func killed(t *testing.T) string {
	t.Helper()
	ns := newNamespace(t)
	mw := web(t, ns, "app:v1")
	r := revisionOf(t, mw, 1, "app:v1")
	kill := func(id string, ago time.Duration) v1alpha1.KillRecord {
		at := metav1.NewMicroTime(time.Now().Add(-ago))
		return v1alpha1.KillRecord{
			ID: id, Container: "app", Trigger: v1alpha1.TriggerLivenessProbe, RequestedBy: "shim", Message: "Container app failed liveness probe, will be restarted",
			Phase: v1alpha1.KillPhaseDone, Grace: v1alpha1.KillGrace{Seconds: 30, Source: v1alpha1.GraceSourcePod, UsedSeconds: 30}, Outcome: v1alpha1.KillOutcomeForced,
			ExitCode: ptr.To[int32](137), StopSignal: "SIGTERM", StopTimeoutSeconds: ptr.To[int64](30), StartTime: at, StopTime: &at,
		}
	}
	for i, node := range []string{"n1", "n2"} {
		nw := nodeWorkloadOf(t, mw, node, r)
		for j := range 3 {
			nw.Status.Kills = append(nw.Status.Kills, kill(fmt.Sprintf("kill-%d", j), time.Duration(2*j+i+1)*time.Hour+time.Minute))
		}
		nw.Status.Conditions[0].Status, nw.Status.Conditions[0].Reason = metav1.ConditionStatus([]string{"True", "False"}[i]), "ContainersNotReady"
		update(t, nw)
	}
	return ns
}

// times are what depends on the time of the test.
var times = regexp.MustCompile(`\S+ ago|since \S+|\S+ on the clock of`)

func TestWhy(t *testing.T) {
	ns := killed(t)
	r := run(t, ns, "", "why", "web", "--limit=3")
	if r.code != ExitOK || r.err != "" {
		t.Fatalf("%+v", r)
	}
	golden(t, "why.txt", times.ReplaceAllString(r.out, "TIME"))
	tests := map[string]struct {
		args []string
		want []string
	}{
		"all":            {want: []string{"n1", "n2", "n1", "n2", "n1", "n2"}},
		"node":           {args: []string{"--node=n2"}, want: []string{"n2", "n2", "n2"}},
		"since":          {args: []string{"--since=3h"}, want: []string{"n1", "n2"}},
		"container":      {args: []string{"-c", "other"}},
		"a NodeWorkload": {args: []string{placement.NodeWorkloadName("web", "n1")}, want: []string{"n1", "n1", "n1"}},
		"typed":          {args: []string{"nw/" + placement.NodeWorkloadName("web", "n1")}, want: []string{"n1", "n1", "n1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"why", "-o", "json"}, tc.args...)
			if len(tc.args) == 0 || strings.HasPrefix(tc.args[0], "-") {
				args = append(args, "web")
			}
			r := run(t, ns, "", args...)
			var answer whyAnswer
			if err := json.Unmarshal([]byte(r.out), &answer); err != nil {
				t.Fatalf("%+v: %v", r, err)
			}
			var got []string
			for _, e := range answer.Ends {
				got = append(got, e.Node)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
		})
	}
	const older = "4 are older than --since, by the clocks of their nodes, and not shown.\n"
	if r := run(t, ns, "", "why", "web", "--since=3h"); !strings.HasSuffix(r.out, older) {
		t.Errorf("--since does not say what it left out:\n%s", r.out)
	}
	run(t, ns, "", "why", "nothing").want(t, ExitError, "", `managedworkloads.managedworkload.dev "nothing" not found`)
	run(t, ns, "", "why", "web", "-o", "html").want(t, ExitError, "", "--output must be json or yaml")
	run(t, ns, "", "why").want(t, ExitError, "", "accepts 1 arg(s), received 0")
}

// A node's clock that is ahead makes no age invalid, and one that is far ahead is named.
func TestWhyWithClocks(t *testing.T) {
	now := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	kill := &v1alpha1.KillRecord{StartTime: metav1.NewMicroTime(now.Add(time.Hour)), Phase: v1alpha1.KillPhaseDone}
	tests := map[string]struct {
		at           time.Time
		kill         *v1alpha1.KillRecord
		want, clock  string
		wantWaitedAt string
	}{
		"past":               {at: now.Add(-5 * time.Minute), want: "5m ago: killed", clock: "2026-03-14T09:21:53Z on the clock of node n1", wantWaitedAt: "(since 5m)"},
		"a few seconds":      {at: now.Add(20 * time.Second), want: "0s ago: killed", clock: "2026-03-14T09:27:13Z on the clock of node n1", wantWaitedAt: "(since 0s)"},
		"far ahead":          {at: now.Add(2 * time.Minute), want: "0s ago, on a clock that is ahead: killed", clock: "2026-03-14T09:28:53Z on the clock of node n1", wantWaitedAt: "(since 0s, on a clock that is ahead)"},
		"as the manager saw": {at: now.Add(-time.Minute), kill: kill, want: "60s ago: killed", clock: "2026-03-14T09:25:53Z on the manager's clock; that of node n1 said 2026-03-14T10:26:53Z", wantWaitedAt: "(since 60s)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			answer := whyAnswer{
				Waiting: []ends.Wait{{Subject: "n1", Text: "Ready is False", Since: ptr.To(metav1.NewTime(tc.at))}},
				Ends:    []ends.End{{Node: "n1", NodeWorkload: "web-n1", Container: "app", Time: metav1.NewMicroTime(tc.at), Summary: "killed", Kill: tc.kill}},
			}
			if err := answer.print(terminal.New(&out), now); err != nil {
				t.Fatal(err)
			}
			want := "n1  Ready is False " + tc.wantWaitedAt + "\n\napp  n1  " + tc.want + "\n    " + tc.clock + "\n"
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Errorf("why (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimeline(t *testing.T) {
	ns := killed(t)
	if r := run(t, ns, "", "timeline", "web"); r.code != ExitOK || strings.Count(r.out, "✗") != 7 || !strings.Contains(r.out, "n2  app") {
		t.Errorf("%+v", r)
	}
	if r := run(t, ns, "", "timeline", "web", "-o", "html"); r.code != ExitOK || !strings.HasPrefix(r.out, "<!DOCTYPE html>") || !strings.Contains(r.out, ns) {
		t.Errorf("%+v", r)
	}
	r := run(t, ns, "", "timeline", "web", "-o", "json", "--limit=4")
	var answer timelineAnswer
	if err := json.Unmarshal([]byte(r.out), &answer); err != nil || answer.More != 2 || len(answer.Lanes) != 2 || len(answer.Lanes[0].Marks) != 2 {
		t.Errorf("%v: %s", err, r.out)
	}
}
