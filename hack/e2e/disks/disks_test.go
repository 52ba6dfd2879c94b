// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package disks

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// usedPercent is how much of the disk is in use.
func usedPercent(t *testing.T) int {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(disk, &s); err != nil {
		t.Fatal(err)
	}
	return 100 - int(s.Bavail*100/s.Blocks)
}

// logFolder is where the logs of a workload's container lie.
func logFolder(nw *v1alpha1.NodeWorkload, container string) string {
	return filepath.Join(env.Stack.PodLogDir(), nw.Namespace+"_"+nw.Name+"_"+string(nw.UID), container)
}

// held is how many bytes the files of a log have, and how many there are.
func held(t *testing.T, folder string) (size int64, files []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it was removed meanwhile
			size += info.Size()
			files = append(files, e.Name())
		}
	}
	return size, files
}

// written is how many bytes a flood has written into its log: its lines are numbered.
func written(t *testing.T, folder string) int64 {
	t.Helper()
	for range 100 {
		for _, name := range []string{"0.log", newest(t, folder)} {
			data, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				continue // it was rotated or removed meanwhile
			}
			lines := bytes.Split(data, []byte{'\n'})
			for _, line := range slices.Backward(lines[:len(lines)-1]) {
				fields := bytes.Fields(line) // time stream tag number padding
				if len(fields) < 5 {
					continue
				}
				if n, err := strconv.ParseInt(string(fields[3]), 10, 64); err == nil {
					return (n + 1) * int64(len(line)+1)
				}
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the flood has no line")
	return 0
}

// newest is the rotated file that is not compressed and was rotated last.
func newest(t *testing.T, folder string) string {
	t.Helper()
	_, files := held(t, folder)
	last := ""
	for _, name := range files {
		if name != "0.log" && !strings.Contains(name, ".gz") {
			last = max(last, name)
		}
	}
	return last
}

// A container that writes as fast as it can never holds more than twice what its files may
// have and two seconds of its output. Its log has a link for collectors, which goes with it.
func TestFlood(t *testing.T) {
	w := env.Apply(t, fmt.Sprintf(`{terminationGracePeriodSeconds: 0, containers: [{name: c, image: %q, args: [flood]}]}`, localstack.ImageV1))
	nw := w.AwaitReady()
	folder := logFolder(nw, "c")
	id := strings.TrimPrefix(nw.Status.ContainerStatuses[0].ContainerID, "containerd://")
	link := filepath.Join(env.Stack.LogLinks(), fmt.Sprintf("%s_%s_c-%s.log", nw.Name, nw.Namespace, id))
	await(t, "the link is there", func() bool {
		target, err := os.Readlink(link)
		return err == nil && target == filepath.Join(folder, "0.log")
	})
	before, begun := written(t, folder), time.Now()
	var most int64
	for time.Since(begun) < 10*time.Second {
		size, files := held(t, folder)
		most = max(most, size)
		if len(files) > maxLogFiles+1 { // and one that is being compressed
			t.Errorf("it has the files %q", files)
		}
		time.Sleep(50 * time.Millisecond)
	}
	rate := float64(written(t, folder)-before) / time.Since(begun).Seconds()
	bound := 2*maxLogSize*maxLogFiles + int64(2*rate)
	t.Logf("%.0f MiB/s, held at most %d MiB of %d MiB allowed; %d %% of the disk in use", rate/(1<<20), most>>20, bound>>20, usedPercent(t))
	if most > bound {
		t.Errorf("it held %d bytes, %d are allowed", most, bound)
	}
	if rate < 1<<20 {
		t.Errorf("%.0f bytes a second are no flood", rate)
	}
	w.Delete()
	await(t, "logs and link are gone", func() bool {
		_, logs := os.Lstat(filepath.Dir(folder))
		_, linked := os.Lstat(link)
		return os.IsNotExist(logs) && os.IsNotExist(linked)
	})
}

const (
	imageSize = 48 << 20
	// A workload runs images of one round after those of another.
	rounds   = 4
	perRound = 5
)

func imageOf(round, n int) string { return fmt.Sprintf("managedworkload.dev/large:r%dn%d", round, n) }

// templateOf has a container for each image of a round.
func templateOf(round int) string {
	var containers []string
	for n := range perRound {
		containers = append(containers, fmt.Sprintf(`{name: c%d, image: %q}`, n, imageOf(round, n)))
	}
	return fmt.Sprintf(`{terminationGracePeriodSeconds: 1, containers: [%s]}`, strings.Join(containers, ", "))
}

// Twenty images, more than the disk can hold, run one after the other: those that nothing uses
// make room. What runs, what is pinned and what a workload wants stays.
func TestTwentyImages(t *testing.T) {
	var all []string
	for round := range rounds {
		for n := range perRound {
			all = append(all, imageOf(round, n))
		}
	}
	if err := env.Stack.PushLarge(t.Context(), imageSize, all...); err != nil {
		t.Fatal(err)
	}
	w := env.Apply(t, templateOf(0))
	w.AwaitReady()
	most := usedPercent(t)
	for round := 1; round < rounds; round++ {
		w.Change(func(template *corev1.PodTemplateSpec) {
			for n := range perRound {
				template.Spec.Containers[n].Image = imageOf(round, n)
			}
		})
		w.AwaitReady()
		used := usedPercent(t)
		t.Logf("round %d: %d %% of the disk in use", round, used)
		most = max(most, used)
	}
	// One image may come before others are old enough to go.
	if limit := high + 100*imageSize/diskSize + 1; most > limit {
		t.Errorf("%d %% of the disk were in use, want at most %d", most, limit)
	}
	await(t, "the disk is below its threshold", func() bool { return usedPercent(t) < high })
	images := images(t)
	for n := range perRound {
		if last := imageOf(rounds-1, n); !slices.Contains(images, last) {
			t.Errorf("%s, which runs, is gone", last)
		}
	}
	if slices.Contains(images, imageOf(0, 0)) {
		t.Errorf("the image that was not used for longest is there: %q", images)
	}
	if !slices.Contains(images, localstack.ImagePause) {
		t.Error("the pinned image is gone")
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
