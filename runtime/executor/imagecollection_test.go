// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// collected is the image of the pods here, as a collector sees it. Meanwhile is called while
// it is removed.
type collected struct {
	*fakeRuntime
	meanwhile func()
	removed   int
}

func (c *collected) ListImages(context.Context) ([]images.Image, error) {
	return []images.Image{{ID: "img:1"}}, nil
}

func (c *collected) ImagesOfContainers(context.Context) ([]string, error) { return nil, nil }

func (c *collected) RemoveImage(context.Context, string) error {
	c.removed++
	c.meanwhile()
	delete(c.Images, "img:1")
	return nil
}

// A start that has found its image while the image is being collected waits, and pulls it; one
// that has found it before keeps it from being collected.
func TestStartDuringACollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.Images = map[string]bool{"img:1": true}
		records := images.New(images.Config{Events: f}, logr.Discard())
		e := New(Config{Differences: plan.AllDifferences(), Runtime: f, Events: f, Kills: f, HTTP: f, RuntimeName: "fakeRuntime", Images: records})
		store := &collected{fakeRuntime: f, meanwhile: func() {}}
		collector := images.NewCollector(images.CollectorConfig{
			Store: store, Records: records, Wanted: func() []string { return nil }, Logger: logr.Discard(),
			Filesystem: func(context.Context) (int64, int64, error) { return 0, 0, errors.New("not asked") },
		})
		started := make(chan error, 1)
		store.meanwhile = func() {
			go func() { started <- e.SyncPod(t.Context(), startApp(testPod(30, nil), f)).Err }()
			synctest.Wait()
			if len(started) > 0 || len(f.ops("CreateContainer")) > 0 {
				t.Error("a start does not wait for the removal of its image")
			}
		}
		if err := collector.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		if pulls, creates := len(f.ops("PullImage")), len(f.ops("CreateContainer")); pulls != 1 || creates != 1 {
			t.Errorf("%d pulls and %d containers, want one each", pulls, creates)
		}
		if err := collector.Reclaim(t.Context()); err != nil || store.removed != 1 {
			t.Errorf("an image that was just used is removed; error %v", err)
		}
		store.meanwhile = func() {}
		time.Sleep(time.Hour)
		if err := collector.Reclaim(t.Context()); err != nil || store.removed != 2 {
			t.Errorf("an image that is not used stays; error %v", err)
		}
	})
}
