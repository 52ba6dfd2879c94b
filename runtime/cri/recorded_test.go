// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// The kubelet's annotations of a container, as recorded from the kubelet.
func TestConformanceContainerAnnotations(t *testing.T) {
	recordings.Each(t, "hash", func(t *testing.T, _ []byte, v *recordings.Hash) {
		// The recorder started every container for the fourth time.
		got, err := kubeletAnnotations(&corev1.Pod{}, &v.Container, 4)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v.Annotations, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestContainerAnnotations(t *testing.T) {
	pod := newPod()
	pod.DeletionGracePeriodSeconds = ptr.To[int64](5)
	pod.Spec.InitContainers = []corev1.Container{{Name: "first"}, {
		Name: "side", Image: "example.com/side", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}},
		Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
	}}
	side := &pod.Spec.InitContainers[1]
	got, err := containerAnnotations(pod, side, plan.CreateOptions{SandboxID: "s", Attempt: 7})
	if err != nil {
		t.Fatal(err)
	}
	hash := got[annotationHash]
	want := map[string]string{
		"io.kubernetes.container.hash":                     hash,
		"io.kubernetes.container.restartCount":             "7",
		"io.kubernetes.container.terminationMessagePath":   "",
		"io.kubernetes.container.terminationMessagePolicy": "",
		"io.kubernetes.pod.deletionGracePeriod":            "5",
		"io.kubernetes.pod.terminationGracePeriod":         "30",
		"io.kubernetes.container.preStopHandler":           `{"sleep":{"seconds":3}}`,
		"io.kubernetes.container.ports":                    `[{"name":"http","containerPort":80}]`,
		"managedworkload.dev/definition-hash":              plan.HashContainer(side),
		"managedworkload.dev/record":                       `{"sandbox":"s","index":1,"init":true,"restartPolicy":"Always","resources":{},"podRestartPolicy":"Always","restartedAt":"noon"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReadContainer(t *testing.T) {
	sound := map[string]string{
		annotationRestartCount: "7", annotationTerminationGrace: "30", annotationDeletionGrace: "5",
		annotationTerminationPath: "/t", annotationTerminationPolicy: "File",
		annotationPreStop: `{"exec":{"command":["a"]}}`, annotationPorts: `[{"containerPort":80}]`,
		AnnotationRecord: `{"sandbox":"s","index":2,"init":true,"restartPolicy":"Always","resources":{"cpuLimit":500},"restartedAt":"noon"}`,
	}
	soundRecord := recordedContainer{
		restartCount: 7,
		record: containerRecord{
			Sandbox: "s", Index: 2, Init: true, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), RestartedAt: "noon",
			Resources: &plan.Resources{CPULimit: 500},
		},
		Recorded: plan.Recorded{
			Resources:                     &plan.Resources{CPULimit: 500},
			TerminationGracePeriodSeconds: ptr.To[int64](30), DeletionGracePeriodSeconds: ptr.To[int64](5),
			PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"a"}}},
			Ports:   []corev1.ContainerPort{{ContainerPort: 80}},
			Place:   &plan.Place{Index: 2, Init: true, Sidecar: true}, RestartedAt: "noon", TerminationMessagePath: "/t", TerminationMessagePolicy: "File",
		},
	}
	tests := map[string]struct {
		change       map[string]string
		want         func(*recordedContainer)
		wantWarnings int
	}{
		"sound": {want: func(*recordedContainer) {}},
		"restart count is no number: the attempt": {
			change: map[string]string{annotationRestartCount: "x"}, wantWarnings: 1,
			want: func(r *recordedContainer) { r.restartCount = 9 },
		},
		"restart count is negative": {
			change: map[string]string{annotationRestartCount: "-1"}, wantWarnings: 1,
			want: func(r *recordedContainer) { r.restartCount = 9 },
		},
		"restart count is too large": {
			change: map[string]string{annotationRestartCount: "99999999999"}, wantWarnings: 1,
			want: func(r *recordedContainer) { r.restartCount = 9 },
		},
		"grace is empty": {
			change: map[string]string{annotationTerminationGrace: ""}, wantWarnings: 1,
			want: func(r *recordedContainer) { r.TerminationGracePeriodSeconds = nil },
		},
		"deletion grace is negative": {
			change: map[string]string{annotationDeletionGrace: "-30"}, wantWarnings: 1,
			want: func(r *recordedContainer) { r.DeletionGracePeriodSeconds = nil },
		},
		"hook is no JSON": {
			change: map[string]string{annotationPreStop: "{"}, wantWarnings: 1,
			want: func(r *recordedContainer) { r.PreStop = nil },
		},
		"hook is null": {
			change: map[string]string{annotationPreStop: "null"}, wantWarnings: 1,
			want: func(r *recordedContainer) { r.PreStop = nil },
		},
		"hook is of another type": {
			change: map[string]string{annotationPreStop: "[]"}, wantWarnings: 1,
			want: func(r *recordedContainer) { r.PreStop = nil },
		},
		"ports are half good: none": {
			change: map[string]string{annotationPorts: `[{"containerPort":80},5]`}, wantWarnings: 1,
			want: func(r *recordedContainer) { r.Ports = nil },
		},
		"record is half good: none": {
			change: map[string]string{AnnotationRecord: `{"init":true,"index":"two"}`}, wantWarnings: 1,
			want: func(r *recordedContainer) {
				r.record = containerRecord{Index: -1}
				r.Place, r.RestartedAt, r.Resources = nil, "", nil
			},
		},
		"everything at once": {
			change: map[string]string{
				annotationRestartCount: "1e3", annotationTerminationGrace: "30s", annotationDeletionGrace: " ",
				annotationPreStop: "\x00", annotationPorts: "{}", AnnotationRecord: "{]",
			},
			wantWarnings: 6,
			want: func(r *recordedContainer) {
				*r = recordedContainer{restartCount: 9, record: containerRecord{Index: -1}, Recorded: plan.Recorded{
					TerminationMessagePath: "/t", TerminationMessagePolicy: "File",
				}}
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			maps.Copy(annotations, sound)
			maps.Copy(annotations, tc.change)
			want := soundRecord
			tc.want(&want)
			got, warnings := readContainer(annotations, 9)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(recordedContainer{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if len(warnings) != tc.wantWarnings {
				t.Errorf("want %d warnings, got %v", tc.wantWarnings, warnings)
			}
		})
	}
}

func TestReadContainerWithoutAnnotations(t *testing.T) {
	got, warnings := readContainer(nil, 2)
	want := recordedContainer{restartCount: 2, record: containerRecord{Index: -1}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(recordedContainer{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(warnings) != 0 {
		t.Errorf("want no warnings, got %v", warnings)
	}
}

func FuzzReadContainer(f *testing.F) {
	f.Add("7", "30", "5", `{"exec":{"command":["a"]}}`, `[{"containerPort":80}]`, `{"index":2,"init":true,"restartPolicy":"Always"}`)
	f.Add("-1", "99999999999999999999", "", "null", "[null]", `{"restartPolicy":null}`)
	f.Add("0x1", "1e9", "-5", `{"httpGet":{"port":true}}`, "{}", `[]`)
	f.Add("\x00", "\xff", " 1", `{"sleep":{"seconds":-1}}`, `[{"containerPort":4294967296}]`, `{"index":-9223372036854775809}`)
	f.Fuzz(func(t *testing.T, count, grace, deletion, hook, ports, record string) {
		annotations := map[string]string{
			annotationRestartCount: count, annotationTerminationGrace: grace, annotationDeletionGrace: deletion,
			annotationPreStop: hook, annotationPorts: ports, AnnotationRecord: record,
		}
		got, warnings := readContainer(annotations, 9)
		switch {
		case got.restartCount < 0:
			t.Errorf("restart count %d", got.restartCount)
		case got.TerminationGracePeriodSeconds != nil && *got.TerminationGracePeriodSeconds < 0:
			t.Errorf("grace %d", *got.TerminationGracePeriodSeconds)
		case got.TerminationGracePeriodSeconds == nil && len(warnings) == 0:
			t.Error("a grace period was dropped without a warning")
		case got.PreStop == nil && len(warnings) == 0:
			t.Error("a hook was dropped without a warning")
		case got.Place != nil && got.Place.Sidecar && !got.Place.Init:
			t.Error("a sidecar that is no init container")
		}
		readSandbox(annotations)
	})
}

func TestRecordedPod(t *testing.T) {
	ctx := t.Context()
	fake, client := newFake(t)
	fake.images = []*runtimeapi.Image{image("example.com/app:v1", nil, "")}
	if pod, err := client.RecordedPod(ctx, "uid-1"); pod != nil || err != nil {
		t.Fatalf("nothing is there: got %v, %v", pod, err)
	}
	pod := newPod()
	pod.Spec.HostNetwork = true
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "first", Image: "example.com/first"},
		{Name: "side", Image: "example.com/side", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
	}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name: "beside", Image: "example.com/beside",
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"bye"}}}},
		Ports:     []corev1.ContainerPort{{ContainerPort: 80}},
	})
	sandbox, err := client.RunSandbox(ctx, pod, 0)
	if err != nil {
		t.Fatal(err)
	}
	create := func(c *corev1.Container, attempt int) {
		t.Helper()
		if _, err := client.CreateContainer(ctx, pod, c, plan.CreateOptions{SandboxID: sandbox, ImageRef: "sha256:1", Attempt: attempt}); err != nil {
			t.Fatal(err)
		}
	}
	// In another order than the template's; the first instance of app is older
	// than the changed grace period.
	create(&pod.Spec.Containers[0], 0)
	create(&pod.Spec.Containers[1], 0)
	create(&pod.Spec.InitContainers[1], 0)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
	create(&pod.Spec.Containers[0], 1)

	want := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: "uid-1", Labels: pod.Labels, Annotations: pod.Annotations,
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, HostNetwork: true, TerminationGracePeriodSeconds: ptr.To[int64](60),
			InitContainers: []corev1.Container{pod.Spec.InitContainers[1]},
			Containers:     pod.Spec.Containers,
		},
	}
	got, err := client.RecordedPod(ctx, "uid-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	// Without the sandbox, and with one unreadable container.
	fake.set(func() {
		fake.sandboxes = nil
		for _, c := range fake.containers {
			if c.GetMetadata().GetName() == "beside" {
				c.Annotations = map[string]string{annotationPreStop: "{", AnnotationRecord: "?"}
			}
		}
	})
	want.Labels, want.Annotations = nil, nil
	want.Spec.Containers = []corev1.Container{pod.Spec.Containers[0], {Name: "beside", Image: "example.com/beside"}}
	if got, err = client.RecordedPod(ctx, "uid-1"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("without the sandbox (-want +got)\n%s", diff)
	}
}
