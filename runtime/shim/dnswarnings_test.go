// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/managedworkload/managedworkload/runtime/poddir"
)

// recorded takes what is in the recorder.
func recorded(recorder *record.FakeRecorder) []string {
	var all []string
	for {
		select {
		case e := <-recorder.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func TestResolverWarnings(t *testing.T) {
	const (
		missing = `Warning MissingClusterDNS pod: "n_ns(u)". shim does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.`
		servers = "Warning DNSConfigForming Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 192.0.2.1 192.0.2.2 192.0.2.3"
		search  = "Warning DNSConfigForming Search Line limits were exceeded, some search paths have been omitted, the applied search line is: a.example"
	)
	tests := map[string]struct {
		spec       corev1.PodSpec
		clusterDNS []string
		noFile     bool
		want       []string
	}{
		"no cluster DNS":         {spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst}, want: []string{missing}},
		"cluster DNS":            {spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst}, clusterDNS: []string{"10.96.0.10"}},
		"not asked for":          {spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault}},
		"on the host's network":  {spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst, HostNetwork: true}},
		"unreadable is not ours": {spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault}, noFile: true},
		"more than resolvers take": {
			spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst, DNSConfig: &corev1.PodDNSConfig{
				Nameservers: []string{"192.0.2.2", "192.0.2.3", "192.0.2.4"},
				Searches:    []string{"a.example", "b." + string(make([]byte, 253))},
			}},
			want: []string{missing, servers, search},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			resolv := filepath.Join(dir, "resolv.conf")
			if !tc.noFile {
				if err := os.WriteFile(resolv, []byte("nameserver 192.0.2.1\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			dirs := newPodDirs(t, dir, poddir.Config{ResolvConf: resolv, ClusterDNS: tc.clusterDNS, ClusterDomain: "cluster.local"})
			recorder := record.NewFakeRecorder(10)
			warnings := newDNSWarnings(dirs, &events{recorder: recorder, ended: make(chan struct{})})
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n", UID: "u"}, Spec: tc.spec}
			// Each start prepares the pod; the warnings come once.
			for range 5 {
				if err := warnings.prepare(t.Context(), pod); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, recorded(recorder)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// unprepared is a node on which no pod can be prepared.
type unprepared struct{ podPreparer }

var errUnprepared = errors.New("no room")

func (unprepared) Prepare(context.Context, *corev1.Pod) error { return errUnprepared }

func TestNoWarningAboutAPodThatCannotBePrepared(t *testing.T) {
	recorder := record.NewFakeRecorder(10)
	warnings := newDNSWarnings(unprepared{}, &events{recorder: recorder, ended: make(chan struct{})})
	if err := warnings.prepare(t.Context(), &corev1.Pod{}); !errors.Is(err, errUnprepared) {
		t.Errorf("error %v", err)
	}
	if got := recorded(recorder); len(got) > 0 {
		t.Errorf("events %v", got)
	}
}

// changingDNS is a node whose resolver configuration changes.
type changingDNS struct {
	podPreparer
	warnings []poddir.Warning
}

func (*changingDNS) Prepare(context.Context, *corev1.Pod) error { return nil }

func (d *changingDNS) DNS(*corev1.Pod) (poddir.DNSConfig, error) {
	return poddir.DNSConfig{Warnings: d.warnings}, nil
}

// A warning comes once for each workload, and again when it says something else.
func TestResolverWarningsComeOnce(t *testing.T) {
	recorder := record.NewFakeRecorder(100)
	node := &changingDNS{}
	warnings := newDNSWarnings(node, &events{recorder: recorder, ended: make(chan struct{})})
	pod := func(uid types.UID) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }
	one, other := poddir.Warning{Reason: "MissingClusterDNS", Message: "one"}, poddir.Warning{Reason: "MissingClusterDNS", Message: "other"}
	for _, step := range []struct {
		name     string
		uid      types.UID
		warnings []poddir.Warning
		before   func()
		want     int
	}{
		{name: "the first start", uid: "a", warnings: []poddir.Warning{one}, want: 1},
		{name: "a restart", uid: "a", warnings: []poddir.Warning{one}},
		{name: "another workload", uid: "b", warnings: []poddir.Warning{one}, want: 1},
		{name: "other words", uid: "a", warnings: []poddir.Warning{other}, want: 1},
		{name: "another reason", uid: "a", warnings: []poddir.Warning{other, {Reason: "DNSConfigForming", Message: "x"}}, want: 1},
		{name: "forgotten", uid: "a", warnings: []poddir.Warning{other}, before: func() { warnings.forget("a") }, want: 1},
	} {
		if step.before != nil {
			step.before()
		}
		node.warnings = step.warnings
		if err := warnings.prepare(t.Context(), pod(step.uid)); err != nil {
			t.Fatal(err)
		}
		if got := recorded(recorder); len(got) != step.want {
			t.Errorf("%s: events %q, want %d", step.name, got, step.want)
		}
	}
}
