// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/runtime/plan/vectors"
)

const (
	// freshLine is a pod of which nothing runs yet.
	freshLine = `{"id":"fresh","pod":{"spec":{"containers":[{"name":"a"}]}},"podStatus":{}}`

	freshAnswer = `{"id":"fresh","actions":{"killPod":true,"createSandbox":true,"sandboxID":"","attempt":0,` +
		`"initContainersToStart":[],"containersToStart":[0],"ephemeralContainersToStart":[],"containersToKill":[],` +
		`"containersToReset":[],"updatePodResources":false,"updatePodLevelResources":false}}`

	// killLine is a pod with a changed definition, a failed probe and a container
	// that the spec does not name.
	killLine = `{"id":"kill","pod":{"spec":{"containers":[{"name":"b"},{"name":"a"}]}},"podStatus":{` +
		`"sandboxes":[{"id":"s","state":"READY","attempt":2,"createdAt":5,"networkNamespace":"POD","network":{"ip":"10.0.0.1"}}],` +
		`"containers":[{"id":"2","name":"b","state":"running","hash":1,"hashMatches":false},` +
		`{"id":"1","name":"a","state":"running","hashMatches":true,"startedAt":"2026-01-01T00:00:00Z"},` +
		`{"id":"0","name":"x","state":"running","hashMatches":null}]},` +
		`"probes":{"liveness":{"1":"failure"},"startup":{"1":"success","2":"unknown"}},"restartAllContainers":false}`

	killAnswer = `{"id":"kill","actions":{"killPod":false,"createSandbox":false,"sandboxID":"s","attempt":2,` +
		`"initContainersToStart":[],"containersToStart":[0,1],"ephemeralContainersToStart":[],"containersToKill":[` +
		`{"id":"1","name":"a","specName":"a","message":"Container a failed liveness probe, will be restarted","reason":"LivenessProbe"},` +
		`{"id":"2","name":"b","specName":"b","message":"Container b definition changed, will be restarted","reason":""}],` +
		`"containersToReset":[],"updatePodResources":false,"updatePodLevelResources":false}}`

	resetLine = `{"id":"<reset>","pod":{"spec":{"containers":[{"name":"a"}]}},"podStatus":{` +
		`"sandboxes":[{"id":"s","state":"READY"}],"containers":[{"id":"1","name":"a","state":"unknown"}]},` +
		`"restartAllContainers":true}`

	resetAnswer = `{"id":"<reset>","actions":{"killPod":false,"createSandbox":false,"sandboxID":"s","attempt":0,` +
		`"initContainersToStart":[],"containersToStart":[],"ephemeralContainersToStart":[],"containersToKill":[],` +
		`"containersToReset":[{"id":"1","name":"a","kill":true}],"updatePodResources":false,"updatePodLevelResources":false}}`
)

func TestRun(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in       string
		want     string
		wantErrs string
		wantErr  string
	}{
		"nothing": {},
		"answers in the order of the lines": {
			in:   killLine + "\n" + freshLine + "\n" + resetLine + "\n",
			want: killAnswer + "\n" + freshAnswer + "\n" + resetAnswer + "\n",
		},
		"no end of the last line, Windows ends, blank lines": {
			in:   "\n" + freshLine + "\r\n \r\n\n" + freshLine,
			want: freshAnswer + "\n" + freshAnswer + "\n",
		},
		"the others are answered": {
			in:       freshLine + "\n\n{}\n" + freshLine + "\n" + `{"id":"x"}`,
			want:     freshAnswer + "\n" + freshAnswer + "\n",
			wantErrs: "line 3: id: must be set\nline 5: pod: must be set\n",
			wantErr:  "2 of 4 lines are not plan inputs",
		},
		"a long line": {
			in: strings.Replace(freshLine, `"pod":`, `"output":"`+strings.Repeat("x", 5<<20)+`","pod":`, 1) +
				"\n" + freshLine,
			want: freshAnswer + "\n" + freshAnswer + "\n",
		},
		"keys that mean nothing": {
			in:       strings.Replace(freshLine, `"pod":`, `"extra":1,"pod":`, 1) + "\n" + freshLine,
			want:     freshAnswer + "\n",
			wantErrs: "line 1: decode input: unknown field \"extra\"\n",
			wantErr:  "1 of 2 lines are not plan inputs",
		},
		"a line without an end": {
			in:       freshLine + "\n" + strings.Repeat("x", 17<<20) + "\n" + freshLine + "\n",
			want:     freshAnswer + "\n" + freshAnswer + "\n",
			wantErrs: "line 2: longer than 16777216 bytes\n",
			wantErr:  "1 of 3 lines are not plan inputs",
		},
		"nothing but a line without an end": {
			in:       strings.Repeat("x", 17<<20),
			wantErrs: "line 1: longer than 16777216 bytes\n",
			wantErr:  "1 of 1 lines are not plan inputs",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			err := vectors.Run(strings.NewReader(tt.in), &out, &errs)
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("Answers differ (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantErrs, errs.String()); diff != "" {
				t.Errorf("Reports differ (-want +got):\n%s", diff)
			}
			if got := errorText(err); got != tt.wantErr {
				t.Errorf("Run error = %q, want %q", got, tt.wantErr)
			}
			if _, ok := errors.AsType[*vectors.BadLinesError](err); ok != (tt.wantErr != "") {
				t.Errorf("Run error is %T", err)
			}
		})
	}
}

// A caller that writes a line and waits for its answer gets it.
func TestRunAnswersAtOnce(t *testing.T) {
	t.Parallel()
	in, lines := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- vectors.Run(in, out, io.Discard) }()
	for range 2 {
		if _, err := io.WriteString(lines, freshLine+"\n"); err != nil {
			t.Fatalf("Write: %v", err)
		}
		answer := make([]byte, len(freshAnswer)+1)
		if _, err := io.ReadFull(answers, answer); err != nil {
			t.Fatalf("Read: %v", err)
		}
		if diff := cmp.Diff(freshAnswer+"\n", string(answer)); diff != "" {
			t.Errorf("Answer differs (-want +got):\n%s", diff)
		}
	}
	if err := lines.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestRunFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	tests := map[string]struct {
		in        io.Reader
		out, errs io.Writer
		wantText  string
	}{
		"input":  {in: iotest.ErrReader(broken), out: io.Discard, errs: io.Discard, wantText: "read line 1"},
		"output": {in: strings.NewReader(freshLine), out: failingWriter{broken}, errs: io.Discard, wantText: "answer line 1"},
		"output of much": {
			in:  strings.NewReader(strings.Repeat(freshLine+"\n", 50)),
			out: failingWriter{broken}, errs: io.Discard, wantText: "answer line",
		},
		"reports": {in: strings.NewReader("x"), out: io.Discard, errs: failingWriter{broken}, wantText: "report line 1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := vectors.Run(tt.in, tt.out, tt.errs)
			if !errors.Is(err, broken) || !strings.Contains(errorText(err), tt.wantText) {
				t.Errorf("Run error = %v, want %q of %v", err, tt.wantText, broken)
			}
		})
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
