// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// oneContainer runs until it is told to stop, and writes a journal.
const oneContainer = `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}` + dirVolume

// unreachable is an image of a registry that is not there. Where a test gives it to the
// runtime it is another name of ImagePause, of which no test asks the name.
func unreachable(name string) string { return "127.0.0.1:1/" + name + ":v1" }

// updateWaiting is the condition of a change that waits, nil if it does not.
func updateWaiting(nw *v1alpha1.NodeWorkload) *metav1.Condition {
	return meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionUpdateWaiting)
}

// awaitWait waits until a change waits for one of the reasons, and checks that nothing
// was killed for it and that the status is still that of the template before.
func awaitWait(t *testing.T, w *harness.Workload, before *v1alpha1.NodeWorkload, image string, reasons ...string) *v1alpha1.NodeWorkload {
	t.Helper()
	nw := w.Await(fmt.Sprintf("the change waits: %q", reasons), func(nw *v1alpha1.NodeWorkload) bool {
		c := updateWaiting(nw)
		return c != nil && slices.Contains(reasons, c.Reason)
	})
	c := updateWaiting(nw)
	if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "waits for image "+image+": "+c.Reason) || c.ObservedGeneration != nw.Generation {
		t.Errorf("condition %+v", c)
	}
	st, old := &nw.Status, &before.Status
	if st.Summary != "Running, waiting: "+c.Reason || st.Ready != old.Ready || st.TemplateHash != old.TemplateHash || st.ObservedGeneration != nw.Generation {
		t.Errorf("summary %q, ready %s, generation %d of %d, template %s, before %s", st.Summary, st.Ready, st.ObservedGeneration, nw.Generation, st.TemplateHash, old.TemplateHash)
	}
	if st.KillCount != 0 || !slices.Equal(containerIDs(nw), containerIDs(before)) {
		t.Errorf("%d kills, containers %v, before %v", st.KillCount, containerIDs(nw), containerIDs(before))
	}
	return nw
}

func containerIDs(nw *v1alpha1.NodeWorkload) []string {
	var ids []string
	for _, c := range slices.Concat(nw.Status.InitContainerStatuses, nw.Status.ContainerStatuses) {
		ids = append(ids, c.ContainerID)
	}
	return ids
}

func setImage(image string, policy corev1.PullPolicy) func(*corev1.PodTemplateSpec) {
	return func(tmpl *corev1.PodTemplateSpec) {
		tmpl.Spec.Containers[0].Image, tmpl.Spec.Containers[0].ImagePullPolicy = image, policy
	}
}

// An image that appears late costs the container that runs nothing before.
func TestImageThatAppearsLate(t *testing.T) {
	t.Parallel()
	image := unreachable("late")
	w := env.Apply(t, oneContainer)
	before := w.AwaitReady()
	w.Change(setImage(image, corev1.PullIfNotPresent))
	awaitWait(t, w, before, image, "ErrImagePull")
	awaitWait(t, w, before, image, "ImagePullBackOff")
	for reason, message := range map[string]string{
		"Pulling": fmt.Sprintf("Pulling image %q", image),
		"Failed":  fmt.Sprintf("Failed to pull image %q: ", image),
		"BackOff": fmt.Sprintf("Back-off pulling image %q", image),
	} {
		w.AwaitEvent(reason, message)
	}
	if ready := meta.FindStatusCondition(w.Get().Status.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Status != metav1.ConditionFalse {
		t.Errorf("the ManagedWorkload does not run the new template and says %+v", ready)
	}
	if starts, ends := w.Find("c", "started"), w.Find("c", "signal"); len(starts) != 1 || len(ends) != 0 {
		t.Errorf("the container saw %q", harness.Texts(w.Journal("c")))
	}

	if err := env.Stack.Import(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	kill := w.AwaitTrigger("c", v1alpha1.TriggerDefinitionChanged)
	if kill.Outcome != v1alpha1.KillOutcomeGraceful || !slices.Equal(kill.ChangedFields, []string{"image"}) {
		t.Errorf("kill %+v", kill)
	}
	after := w.AwaitReady()
	if c := updateWaiting(after); c != nil || after.Status.Summary != "Running" || after.Status.KillCount != 1 || after.Status.TemplateHash == before.Status.TemplateHash {
		t.Errorf("condition %+v, summary %q, %d kills", c, after.Status.Summary, after.Status.KillCount)
	}
	w.AwaitEvent("Pulled", fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", image))
}

// The shim that comes after one that waits waits too, and kills nothing. It is not
// parallel: other tests have this shim too.
func TestImageThatTheNextShimWaitsFor(t *testing.T) {
	image := unreachable("next")
	w := env.Apply(t, oneContainer)
	before := w.AwaitReady()
	w.Change(setImage(image, corev1.PullIfNotPresent))
	awaitWait(t, w, before, image, "ErrImagePull", "ImagePullBackOff")
	if err := env.Stack.Shim.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := env.Stack.Shim.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A change that restarts nothing shows that the new shim has the workload.
	w.Change(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.TerminationGracePeriodSeconds = new(int64(11)) })
	w.Await("the new shim has taken it over", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.Status.ObservedGeneration == nw.Generation && nw.Spec.Template.Spec.TerminationGracePeriodSeconds != nil &&
			*nw.Spec.Template.Spec.TerminationGracePeriodSeconds == 11
	})
	awaitWait(t, w, before, image, "ErrImagePull", "ImagePullBackOff")
	if starts := w.AwaitFind("c", "started", 1); len(starts) != 1 {
		t.Errorf("the container saw %q", harness.Texts(w.Journal("c")))
	}
	if err := env.Stack.Import(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	w.AwaitTrigger("c", v1alpha1.TriggerDefinitionChanged)
	w.AwaitReady()
}

// Under Always the image is pulled before the kill, and a registry that goes away during
// the kill is not missed.
func TestImageThatWasPulledBeforeTheKill(t *testing.T) {
	t.Parallel()
	registry := serveImage(t)
	image := strings.TrimPrefix(registry.URL, "http://") + "/app:v1"
	w := env.Apply(t, `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, "--on-term=delay:5s", --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	before := w.AwaitReady()
	w.Change(setImage(image, corev1.PullAlways))
	w.AwaitPhase("c", v1alpha1.KillPhaseStopping)
	w.AwaitEvent("Pulled", fmt.Sprintf("Successfully pulled image %q", image))
	registry.Close()
	if after := w.AwaitReady(); after.Status.KillCount != 1 || after.Status.TemplateHash == before.Status.TemplateHash {
		t.Errorf("%d kills, template %s", after.Status.KillCount, after.Status.TemplateHash)
	}
	for _, e := range w.Events() {
		if e.Reason == "Pulling" && e.Count > 1 || e.Reason == "Failed" {
			t.Errorf("event %s %q, %d times", e.Reason, e.Message, e.Count)
		}
	}
}

// What can never be pulled kills nothing, and the change can be taken back.
func TestImageThatNeverComes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		image  string
		policy corev1.PullPolicy
		reason string
	}{
		"never":   {unreachable("never"), corev1.PullNever, "ErrImageNeverPull"},
		"invalid": {"Not/An:Image:Name", corev1.PullIfNotPresent, "InvalidImageName"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.Apply(t, oneContainer)
			before := w.AwaitReady()
			w.Change(setImage(tc.image, tc.policy))
			awaitWait(t, w, before, tc.image, tc.reason)
			w.Change(setImage(localstack.ImageV1, corev1.PullIfNotPresent))
			after := w.AwaitReady()
			w.Await("nothing waits", func(nw *v1alpha1.NodeWorkload) bool {
				return updateWaiting(nw) == nil && nw.Status.Summary == "Running"
			})
			if after.Status.KillCount != 0 || !slices.Equal(containerIDs(after), containerIDs(before)) || after.Status.TemplateHash != before.Status.TemplateHash {
				t.Errorf("%d kills, containers %v, before %v", after.Status.KillCount, containerIDs(after), containerIDs(before))
			}
		})
	}
}

// A deletion does not wait for an image.
func TestDeletionWhileAChangeWaits(t *testing.T) {
	t.Parallel()
	image := unreachable("deleted")
	w := env.Apply(t, oneContainer)
	before := w.AwaitReady()
	w.Change(setImage(image, corev1.PullIfNotPresent))
	awaitWait(t, w, before, image, "ErrImagePull", "ImagePullBackOff")
	begun := time.Now()
	kills := w.DeleteAndCollect()
	if took := time.Since(begun); len(kills) != 1 || kills[0].Trigger != v1alpha1.TriggerTermination || kills[0].Outcome != v1alpha1.KillOutcomeGraceful || took > 2*slack {
		t.Errorf("after %s: %+v", took, kills)
	}
}

// A container that leaves by itself while its successor's image is missing waits as one
// of a Pod does, and is started once the image is there.
func TestExitWhileAChangeWaits(t *testing.T) {
	t.Parallel()
	image := unreachable("exited")
	w := env.Apply(t, `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --exit-after=15s, --exit-code=3, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	before := w.AwaitReady()
	w.Change(setImage(image, corev1.PullIfNotPresent))
	awaitWait(t, w, before, image, "ErrImagePull", "ImagePullBackOff")
	nw := w.Await("it waits for its image", func(nw *v1alpha1.NodeWorkload) bool {
		c := nw.Status.ContainerStatuses[0].State.Waiting
		return c != nil && c.Reason == "ImagePullBackOff" && nw.Status.Summary == c.Reason
	})
	if last := nw.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 3 || nw.Status.KillCount != 0 {
		t.Errorf("last state %+v, %d kills", last, nw.Status.KillCount)
	}
	if err := env.Stack.Import(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	if after := w.AwaitReady(); after.Status.Restarts != 1 || after.Status.TemplateHash == before.Status.TemplateHash {
		t.Errorf("%d restarts, template %s", after.Status.Restarts, after.Status.TemplateHash)
	}
}

// A new sandbox waits for all images of the pod, those of init containers too.
func TestSandboxWaitsForAllImages(t *testing.T) {
	t.Parallel()
	image := unreachable("init")
	w := env.Apply(t, `
initContainers: [{name: init, image: "managedworkload.dev/testprogram:v1", args: [serve, --exit-after=0s]}]
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	before := w.AwaitReady()
	boxes := sandboxes(t, w)
	w.Change(func(tmpl *corev1.PodTemplateSpec) {
		tmpl.Spec.Hostname = "another"
		tmpl.Spec.InitContainers[0].Image = image
	})
	awaitWait(t, w, before, image, "ErrImagePull", "ImagePullBackOff")
	if got := sandboxes(t, w); !slices.Equal(got, boxes) {
		t.Errorf("sandboxes %v, before %v", got, boxes)
	}
	if err := env.Stack.Import(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	w.AwaitTrigger("c", v1alpha1.TriggerSandboxChanged)
	w.AwaitReady()
}
