// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

var update = flag.Bool("update", false, "write the golden files")

// example is one preview whose output is kept in testdata.
type example struct {
	// now edits the workload as it is (testdata/old.yaml).
	now func(*v1alpha1.NodeWorkload)
	// change edits it as it is to become; nil without --diff.
	change func(*v1alpha1.NodeWorkload)
	// observed edits what the runtime reports; with assumed it is not asked.
	observed func(*plan.PodStatus)
	assumed  bool
	// alone: --diff without -f.
	alone bool
	// runtime edits the runtime itself.
	runtime func(*fakeRuntime)
	json    bool
}

// container returns a container of the template.
func container(nw *v1alpha1.NodeWorkload, name string) *corev1.Container {
	spec := &nw.Spec.Template.Spec
	for i := range spec.InitContainers {
		if spec.InitContainers[i].Name == name {
			return &spec.InitContainers[i]
		}
	}
	for i := range spec.Containers {
		if spec.Containers[i].Name == name {
			return &spec.Containers[i]
		}
	}
	return nil
}

func newImage(name string) func(*v1alpha1.NodeWorkload) {
	return func(nw *v1alpha1.NodeWorkload) { container(nw, name).Image += "-next" }
}

// limits gives two containers limits; the memory of one needs a restart.
func limits(cpu, memory string) func(*v1alpha1.NodeWorkload) {
	return func(nw *v1alpha1.NodeWorkload) {
		for _, name := range []string{"web", "log"} {
			container(nw, name).Resources.Limits = corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			}
		}
		container(nw, "log").ResizePolicy = []corev1.ContainerResizePolicy{
			{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
		}
	}
}

func resizeAndHook(nw *v1alpha1.NodeWorkload) {
	limits("200m", "96Mi")(nw)
	container(nw, "web").Lifecycle.PreStop.Exec.Command = []string{"drain", "now"}
}

var examples = map[string]example{
	"steady":      {},
	"steady.json": {json: true},
	"nothing-yet": {runtime: func(f *fakeRuntime) { f.pods, f.status = nil, nil }},
	"sandbox-lost": {observed: func(s *plan.PodStatus) {
		s.Sandboxes[0].State, s.Sandboxes[0].Attempt = plan.SandboxNotReady, 3
		s.Current("web").State = plan.ContainerExited
	}},
	"exited": {observed: func(s *plan.PodStatus) {
		s.Current("log").State, s.Current("log").ExitCode = plan.ContainerExited, 3
	}},
	"pull": {
		now: func(nw *v1alpha1.NodeWorkload) { container(nw, "proxy").ImagePullPolicy = corev1.PullAlways },
		observed: func(s *plan.PodStatus) {
			for _, name := range []string{"proxy", "web", "log"} {
				s.Current(name).State = plan.ContainerExited
			}
		},
		runtime: func(f *fakeRuntime) { f.images = plan.Images{"proxy:1": "sha256:1", "web:1": "sha256:2", "log:1": ""} },
	},
	"pull-shared": {
		now: func(nw *v1alpha1.NodeWorkload) {
			container(nw, "web").Image, container(nw, "log").Image = "app", "app:latest"
			container(nw, "log").ImagePullPolicy = corev1.PullNever
		},
		observed: func(s *plan.PodStatus) {
			s.Current("web").State, s.Current("log").State = plan.ContainerExited, plan.ContainerExited
		},
		runtime: func(f *fakeRuntime) { f.images = plan.Images{"app": "", "app:latest": ""} },
	},
	"pull-never": {
		now:      func(nw *v1alpha1.NodeWorkload) { container(nw, "log").ImagePullPolicy = corev1.PullNever },
		observed: func(s *plan.PodStatus) { s.Current("log").State = plan.ContainerExited },
		runtime:  func(f *fakeRuntime) { f.images = plan.Images{"log:1": ""} },
	},
	"pull-before-kill": {
		now: func(nw *v1alpha1.NodeWorkload) { container(nw, "log").ImagePullPolicy = corev1.PullAlways },
		change: func(nw *v1alpha1.NodeWorkload) {
			container(nw, "web").Image, container(nw, "log").Command = "web:2", []string{"log"}
		},
		runtime: func(f *fakeRuntime) { f.images = plan.Images{"web:2": "", "proxy:1": "sha256:1"} },
	},
	"no-kill-without-image": {
		change: func(nw *v1alpha1.NodeWorkload) {
			container(nw, "proxy").Image, container(nw, "web").Image = "proxy:2", "Web:2"
			container(nw, "proxy").ImagePullPolicy = corev1.PullNever
		},
		runtime: func(f *fakeRuntime) { f.images = plan.Images{"proxy:2": "", "web:1": "sha256:1"} },
	},
	"no-new-sandbox-without-image": {
		change: func(nw *v1alpha1.NodeWorkload) {
			nw.Spec.Template.Spec.Hostname = "other"
			container(nw, "log").Image, container(nw, "log").ImagePullPolicy = "log:2", corev1.PullNever
		},
		observed: func(s *plan.PodStatus) { s.Current("web").State = plan.ContainerExited },
		runtime:  func(f *fakeRuntime) { f.images = plan.Images{"log:2": "", "web:1": "", "proxy:1": "", "prepare:1": ""} },
	},
	"unknown-state": {observed: func(s *plan.PodStatus) { s.Current("log").State = plan.ContainerUnknown }},
	"second-instance": {observed: func(s *plan.PodStatus) {
		older := *s.Current("log")
		older.ID = "id-older"
		s.Containers = append(s.Containers, older)
	}},
	"initialization": {observed: func(s *plan.PodStatus) { s.Containers = nil }},
	"succeeded": {
		now: func(nw *v1alpha1.NodeWorkload) {
			nw.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		},
		observed: func(s *plan.PodStatus) {
			s.Current("web").State, s.Current("log").State = plan.ContainerExited, plan.ContainerExited
		},
	},
	"terminated": {
		now: func(nw *v1alpha1.NodeWorkload) {
			nw.Spec.Template.Spec.RestartPolicy, nw.Status.Phase = corev1.RestartPolicyNever, corev1.PodSucceeded
		},
		observed: func(s *plan.PodStatus) {
			s.Sandboxes[0].State = plan.SandboxNotReady
			for i := range s.Containers {
				s.Containers[i].State = plan.ContainerExited
			}
		},
	},
	"restart-all": {
		now: func(nw *v1alpha1.NodeWorkload) {
			c := container(nw, "log")
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
			c.RestartPolicyRules = []corev1.ContainerRestartRule{{
				Action: corev1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
					Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
				},
			}}
		},
		observed: func(s *plan.PodStatus) {
			s.Current("log").State, s.Current("log").ExitCode = plan.ContainerExited, 42
		},
	},
	"deletion": {now: func(nw *v1alpha1.NodeWorkload) {
		nw.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		nw.Spec.DeletionGracePeriodSeconds = ptr.To[int64](7)
	}},
	"deletion-at-once": {now: func(nw *v1alpha1.NodeWorkload) {
		nw.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		nw.Spec.DeletionGracePeriodSeconds = ptr.To[int64](0)
	}},
	"blocked": {runtime: func(f *fakeRuntime) {
		f.networkDown = os.ErrNotExist
		f.pods = append(f.pods, cri.Pod{UID: "x", Namespace: "kube-system", Name: "kube-proxy"})
	}},
	"deletion-beside-others": {
		now:     func(nw *v1alpha1.NodeWorkload) { nw.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		runtime: func(f *fakeRuntime) { f.pods = append(f.pods, cri.Pod{UID: "x", Name: "kube-proxy"}) },
	},
	"kill-under-way": {now: func(nw *v1alpha1.NodeWorkload) {
		nw.Status.Kills = []v1alpha1.KillRecord{{
			Container: "web", Trigger: v1alpha1.TriggerLivenessProbe, Phase: v1alpha1.KillPhasePreStop,
		}}
	}},
	"image":         {assumed: true, change: newImage("web")},
	"image.json":    {assumed: true, change: newImage("web"), json: true},
	"image-sidecar": {assumed: true, change: newImage("proxy")},
	"image-init":    {assumed: true, change: newImage("prepare")},
	"hook-and-grace": {assumed: true, change: func(nw *v1alpha1.NodeWorkload) {
		container(nw, "web").Image = "web:2"
		container(nw, "web").Lifecycle = nil
		nw.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
	}},
	"probe": {assumed: true, change: func(nw *v1alpha1.NodeWorkload) {
		container(nw, "web").LivenessProbe.FailureThreshold = 9
		container(nw, "web").Lifecycle.PreStop.Exec.Command = []string{"drain", "now"}
		nw.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
	}},
	"resize":          {assumed: true, now: limits("100m", "64Mi"), change: resizeAndHook},
	"resize-observed": {now: limits("100m", "64Mi"), change: limits("200m", "64Mi"), alone: true},
	"stop-signal": {assumed: true, change: func(nw *v1alpha1.NodeWorkload) {
		container(nw, "web").Lifecycle.StopSignal = ptr.To(corev1.SIGUSR1)
		container(nw, "web").Lifecycle.PreStop = nil
	}},
	"renamed": {assumed: true, change: func(nw *v1alpha1.NodeWorkload) { container(nw, "web").Name = "www" }},
	"hostname": {assumed: true, change: func(nw *v1alpha1.NodeWorkload) {
		nw.Spec.Template.Spec.Hostname = "shop"
	}},
	"restarted-at": {assumed: true, change: func(nw *v1alpha1.NodeWorkload) {
		nw.Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationRestartedAt: "2026-01-01T00:00:00Z"}
	}},
	"same": {assumed: true, change: func(*v1alpha1.NodeWorkload) {}},
	"host-network": {
		now:     func(nw *v1alpha1.NodeWorkload) { nw.Spec.Template.Spec.HostNetwork = true },
		runtime: func(f *fakeRuntime) { f.networkDown = os.ErrNotExist },
	},
	"namesake-of-another-node": {runtime: func(f *fakeRuntime) {
		f.pods = append(f.pods, cri.Pod{UID: "x", Namespace: "shop", Name: "web-n1", Instance: "n9"})
	}},
	"image-observed": {change: newImage("web")},
	"image-alone":    {change: newImage("web"), alone: true},
	"ended-and-changed": {
		assumed: true, change: newImage("web"),
		now: func(nw *v1alpha1.NodeWorkload) { nw.Status.Phase = corev1.PodFailed },
	},
	"sidecar-not-started": {
		now: func(nw *v1alpha1.NodeWorkload) {
			container(nw, "proxy").StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				Exec: &corev1.ExecAction{Command: []string{"up"}},
			}}
			nw.Status.InitContainerStatuses = []corev1.ContainerStatus{{
				Name: "proxy", ContainerID: "containerd://id-proxy", Started: ptr.To(false),
			}}
		},
		change: newImage("proxy"),
	},
	"deadline-over": {
		assumed: true,
		now: func(nw *v1alpha1.NodeWorkload) {
			nw.Status.Phase, nw.Status.StartTime = corev1.PodRunning, &metav1.Time{Time: time.Unix(1, 0)}
		},
		change: func(nw *v1alpha1.NodeWorkload) { nw.Spec.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](60) },
	},
	"deadline-to-come": {now: func(nw *v1alpha1.NodeWorkload) {
		// The year 2100.
		nw.Status.Phase, nw.Status.StartTime = corev1.PodRunning, &metav1.Time{Time: time.Unix(4102444800, 0)}
		nw.Spec.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
	}},
	"change-without-uid": {change: func(nw *v1alpha1.NodeWorkload) {
		container(nw, "web").Image, nw.UID = "web:2", ""
	}},
	"change-while-being-deleted": {
		now: func(nw *v1alpha1.NodeWorkload) { nw.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		change: func(nw *v1alpha1.NodeWorkload) {
			container(nw, "web").Image, nw.DeletionTimestamp = "web:2", nil
		},
	},
	"another-version": {observed: func(s *plan.PodStatus) {
		s.Current("web").Hash, s.Current("log").Hash = "v0:1", ""
	}},
	"without-uid": {change: func(nw *v1alpha1.NodeWorkload) { nw.UID = "" }, alone: true},
	"another-instance": {runtime: func(f *fakeRuntime) {
		f.pods = append(f.pods, cri.Pod{UID: "older", Namespace: "shop", Name: "web-n1", Ours: true})
	}},
}

// Each example prints what it did: what a person sees is part of the contract.
func TestExamples(t *testing.T) {
	for name, example := range examples {
		t.Run(name, func(t *testing.T) {
			got := example.run(t)
			file := filepath.Join("testdata", name)
			if !example.json {
				file += ".txt"
			}
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
				t.Errorf("output (-want +got):\n%s\nall of it:\n%s", diff, got)
			}
		})
	}
}

func (s example) run(t *testing.T) string {
	t.Helper()
	now := readOld(t)
	if s.now != nil {
		s.now(now)
	}
	fake := (&fakeRuntime{}).runs(now, s.observed)
	if s.runtime != nil {
		s.runtime(fake)
	}
	var out bytes.Buffer
	o := Options{Output: formatTable, Stdout: &out, Stdin: strings.NewReader(""), connect: fake.connect}
	if s.json {
		o.Output = formatJSON
	}
	if !s.assumed {
		o.RuntimeEndpoint = "unix:///fake"
	}
	if !s.alone {
		o.File = write(t, now)
	}
	if s.change != nil {
		next := readOld(t)
		if s.now != nil {
			s.now(next)
		}
		// What a person writes has no status.
		next.Status = v1alpha1.NodeWorkloadStatus{}
		s.change(next)
		o.Diff = write(t, next)
	}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func readOld(t *testing.T) *v1alpha1.NodeWorkload {
	t.Helper()
	data, err := os.ReadFile("testdata/old.yaml")
	if err != nil {
		t.Fatal(err)
	}
	nw := &v1alpha1.NodeWorkload{}
	if err := yaml.UnmarshalStrict(data, nw); err != nil {
		t.Fatal(err)
	}
	return nw
}

func write(t *testing.T, nw *v1alpha1.NodeWorkload) string {
	t.Helper()
	data, err := yaml.Marshal(nw)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "nw.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
