// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package disks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

const (
	// floodRate is how many bytes a second the flood wants to write. A slow machine writes less, and
	// what it may hold is less, too.
	floodRate = 100_000_000
	imageSize = 40 << 20
	// A workload runs images of one round after those of another.
	rounds   = 4
	perRound = 5
	// noise is what else is written while only the flood runs.
	noise = 8 << 20
)

func imageOf(round, n int) string { return fmt.Sprintf("managedworkload.dev/large:r%dn%d", round, n) }

// templateOf has a container for each image of a round. One takes its time to stop: an image stays
// for ten seconds after a start has decided to use it.
func templateOf(round int) string {
	var containers []string
	for n := range perRound {
		stop := "exit"
		if n == 0 {
			stop = "delay:4s"
		}
		containers = append(containers, fmt.Sprintf(`{name: c%d, image: %q, args: [serve, "--on-term=%s"]}`, n, imageOf(round, n), stop))
	}
	return fmt.Sprintf(`{terminationGracePeriodSeconds: 10, containers: [%s]}`, strings.Join(containers, ", "))
}

// A container floods its log, alone at first and then while twenty images, more than the disk can
// hold, run one after the other. The flood never holds more than twice what its files may have and
// two seconds of its output; images that nothing uses make room, and what runs, what is mounted, what
// is pinned and what a workload wants stays. The flood's log has a link for collectors, which goes
// with it.
func TestFloodAndTwentyImages(t *testing.T) {
	var all []string
	for round := range rounds {
		for n := range perRound {
			all = append(all, imageOf(round, n))
		}
	}
	if err := env.Stack.PushLarge(t.Context(), imageSize, all...); err != nil {
		t.Fatal(err)
	}
	mountImage(t)
	before := usedBytes(t)
	flood := env.Apply(t, fmt.Sprintf(`{terminationGracePeriodSeconds: 0, containers: [{name: c, image: %q, args: [flood, %q]}]}`, localstack.ImageV1, fmt.Sprint(floodRate)))
	nw := flood.AwaitReady()
	folder := logFolder(nw, "c")
	link := awaitLink(t, nw, folder)
	alone := watchDisk(t, folder)
	alone.awaitMeaning(t)
	alone.check(t)
	most, bound := alone.mostUsed()-before, alone.mostAllowed()+noise
	t.Logf("%d MiB of the disk came into use", most>>20)
	if most > bound {
		t.Errorf("%d MiB of the disk came into use, %d are allowed: files that were removed are kept open", most>>20, bound>>20)
	}
	beside := watchDisk(t, folder)
	runRounds(t)
	beside.check(t)
	most, bound = beside.mostBesideLog(), beside.capacity*high/100+imageSize // which is there before others go
	t.Logf("%d MiB of the disk were in use but for what the log has grown, %d are allowed", most>>20, bound>>20)
	if most > bound {
		t.Errorf("%d MiB of the disk were in use, %d are allowed: images do not make room", most>>20, bound>>20)
	}
	checkImages(t)
	await(t, "the disk is used below the threshold", func() bool { return usedBytes(t) <= beside.capacity*high/100 })
	flood.Delete()
	await(t, "logs and link are gone", func() bool {
		_, logs := os.Lstat(filepath.Dir(folder))
		_, linked := os.Lstat(link)
		return os.IsNotExist(logs) && os.IsNotExist(linked)
	})
}

// awaitLink waits for the link of the log of container c.
func awaitLink(t *testing.T, nw *v1alpha1.NodeWorkload, folder string) string {
	t.Helper()
	id := strings.TrimPrefix(nw.Status.ContainerStatuses[0].ContainerID, "containerd://")
	link := filepath.Join(env.Stack.LogLinks(), fmt.Sprintf("%s_%s_c-%s.log", nw.Name, nw.Namespace, id))
	await(t, "the link is there", func() bool {
		target, err := os.Readlink(link)
		return err == nil && target == filepath.Join(folder, "0.log")
	})
	return link
}

// runRounds runs the images of each round in turn.
func runRounds(t *testing.T) {
	t.Helper()
	w := env.Apply(t, templateOf(0))
	w.AwaitReady()
	for round := 1; round < rounds; round++ {
		w.Change(func(template *corev1.PodTemplateSpec) {
			for n := range perRound {
				template.Spec.Containers[n].Image = imageOf(round, n)
			}
		})
		w.AwaitReady()
	}
}

// checkImages checks which images are there after all rounds.
func checkImages(t *testing.T) {
	t.Helper()
	await(t, "an image of those that were not used for longest is gone", func() bool {
		left := images(t)
		for n := range perRound {
			if !slices.Contains(left, imageOf(0, n)) {
				return true
			}
		}
		return false
	})
	images := images(t)
	for n := range perRound {
		if last := imageOf(rounds-1, n); !slices.Contains(images, last) {
			t.Errorf("%s, which runs, is gone", last)
		}
	}
	for what, image := range map[string]string{"is pinned": localstack.ImagePause, "a container mounts": mounted} {
		if !slices.Contains(images, image) {
			t.Errorf("%s, which %s, is gone", image, what)
		}
	}
}

// mounted is the image of a volume. No template names it.
const mounted = "managedworkload.dev/large:mounted"

// mountImage runs a container of a Pod that is not the shim's that mounts an image.
func mountImage(t *testing.T) {
	t.Helper()
	if err := env.Stack.PushLarge(t.Context(), 1<<20, mounted); err != nil {
		t.Fatal(err)
	}
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := cri.PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: mounted}})
	if err != nil {
		t.Fatal(err)
	}
	host := &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "mounts", Uid: "mounts", Namespace: "default"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: env.Stack.CgroupParent(), SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: host},
		},
	}
	pod, err := cri.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	id := pod.GetPodSandboxId()
	t.Cleanup(func() {
		_, stop := cri.StopPodSandbox(context.Background(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
		_, remove := cri.RemovePodSandbox(context.Background(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
		if err := errors.Join(stop, remove, cri.Close()); err != nil {
			t.Error(err)
		}
	})
	created, err := cri.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: id, SandboxConfig: config, Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: &runtimeapi.ImageSpec{Image: localstack.ImageV1}, Args: []string{"pause"},
			Mounts: []*runtimeapi.Mount{{ContainerPath: "/mounted", Readonly: true, Image: &runtimeapi.ImageSpec{Image: pulled.GetImageRef()}}},
			Linux:  &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: host}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cri.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: created.GetContainerId()}); err != nil {
		t.Fatal(err)
	}
}

// images are the tags of all images that containerd has.
func images(t *testing.T) (tags []string) {
	t.Helper()
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // It was only read.
	list, err := cri.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range list.GetImages() {
		tags = append(tags, image.GetRepoTags()...)
	}
	return tags
}

// await waits for what no event says.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Timeout)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("in vain: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
