// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
	"github.com/managedworkload/managedworkload/runtime/text"
)

// The back-off of image pulls, for each pod and image. (kubelet
// kubelet.go:imageBackOffPeriod, MaxImageBackOff)
const (
	imageBackoffBase = 10 * time.Second
	imageBackoffMax  = 300 * time.Second
)

// imageManager sees to it that images are there, and that a pod starts from none that it
// may not use. (kubelet images/image_manager.go)
type imageManager struct {
	runtime Runtime
	access  *images.Manager
	events  Events
	backoff *flowcontrol.Backoff
	room    *pullRoom

	mu sync.Mutex
	// lastError is what the last pull of a pod and image failed with.
	lastError map[types.UID]map[string]string
	// aheads hold a token for a pull ahead of a kill that is under way, by pod: one at a
	// time, so that no pod takes all places.
	aheads map[types.UID]chan struct{}
}

func newImageManager(runtime Runtime, access *images.Manager, events Events, d plan.Differences) *imageManager {
	if access == nil {
		access = images.New(images.Config{Events: events}, logr.Discard())
	}
	places := 1
	if d.ParallelPulls {
		places = parallelPulls
	}
	return &imageManager{
		runtime: runtime, access: access, events: events,
		backoff:   flowcontrol.NewBackOff(imageBackoffBase, imageBackoffMax),
		room:      newPullRoom(places),
		lastError: map[types.UID]map[string]string{},
		aheads:    map[types.UID]chan struct{}{},
	}
}

// imagePull is the need of an image.
type imagePull struct {
	*imageManager
	pod *corev1.Pod
	// container is the one that starts from it; empty for the image of a volume.
	container string
	key       plan.ImageKey
	image     string // with a tag
	// access is the pod's to the image.
	access *images.Access
	// begins is called before the image is pulled ahead of a kill; nil for a start.
	begins func()
}

// ensure returns what the runtime calls the image that a container starts from, or that
// of a volume, and pulls it before if the plan says so; where the plan does not know, the
// runtime is asked. Its errors are startErrors.
func (m *imageManager) ensure(ctx context.Context, pod *corev1.Pod, container string, key plan.ImageKey, need plan.ImageNeed) (string, error) {
	p := m.pullFor(pod, container, key)
	if need.Use == plan.ImagePulled {
		if _, err := p.access.Use(ctx, need.Ref); err != nil {
			return "", err
		}
		if p.stillThere(ctx, need.Ref) {
			return need.Ref, nil
		}
	}
	return p.ensure(ctx, need)
}

// ahead does the same before a kill. It says nothing of an image that is present: the
// start will.
func (m *imageManager) ahead(ctx context.Context, pod *corev1.Pod, container string, key plan.ImageKey, begins func()) (string, error) {
	p := m.pullFor(pod, container, key)
	p.begins = begins
	return p.ensure(ctx, plan.ImageNeed{})
}

func (m *imageManager) pullFor(pod *corev1.Pod, container string, key plan.ImageKey) *imagePull {
	return &imagePull{imageManager: m, pod: pod, container: container, key: key, access: m.access.For(pod, key.Image)}
}

// usable is whether a pod may use an image that the runtime has as ref.
func (m *imageManager) usable(ctx context.Context, pod *corev1.Pod, image, ref string) bool {
	must, err := m.access.For(pod, image).MustPull(ctx, ref)
	return err == nil && !must
}

// stillThere is whether the runtime has what was pulled before; one that does not answer
// has it.
func (p *imagePull) stillThere(ctx context.Context, ref string) bool {
	found, err := p.runtime.ImageRef(ctx, ref)
	return err != nil || found != ""
}

func (p *imagePull) ensure(ctx context.Context, need plan.ImageNeed) (string, error) {
	name := p.key.Image
	var err error
	if p.image, err = podspec.ImageName(name); err != nil {
		message := fmt.Sprintf("Failed to apply default image tag %q: %v", name, err)
		p.event(corev1.EventTypeWarning, "InspectFailed", message)
		return "", &startError{ErrInvalidImageName, message}
	}
	if need.Use != plan.ImagePresent {
		// It may be there by now: a container before may have pulled it.
		if need, err = p.ask(ctx); err != nil {
			return "", err
		}
	}
	if need, err = p.kept(ctx, need); err != nil {
		return "", err
	}
	switch need.Use {
	case plan.ImagePresent:
		if p.begins == nil {
			p.event(corev1.EventTypeNormal, "Pulled",
				fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", name))
		}
		return need.Ref, nil
	case plan.ImageMissing:
		message := fmt.Sprintf("Container image %q is not present with pull policy of Never", name)
		p.event(corev1.EventTypeWarning, "ErrImageNeverPull", message)
		return "", &startError{ErrImageNeverPull, message}
	case plan.ImagePull, plan.ImagePulled:
	}
	return p.pull(ctx)
}

// ask asks the runtime for the image, if that matters.
func (p *imagePull) ask(ctx context.Context) (plan.ImageNeed, error) {
	var ref string
	if p.key.PresenceMatters() {
		var err error
		if ref, err = p.runtime.ImageRef(ctx, p.image); err != nil {
			message := fmt.Sprintf("Failed to inspect image %q: %s", ref, runtimeerror.Text(err))
			p.event(corev1.EventTypeWarning, "InspectFailed", message)
			return plan.ImageNeed{}, &startError{ErrImageInspect, message}
		}
	}
	return p.key.Decide(ref), nil
}

// admitted looks whether the pod may use an image that is present. One that it may not use
// is pulled with its own credentials, or counts as missing.
func (p *imagePull) admitted(ctx context.Context, need plan.ImageNeed) (plan.ImageNeed, error) {
	if need.Use != plan.ImagePresent {
		return need, nil
	}
	must, err := p.access.MustPull(ctx, need.Ref)
	if err != nil {
		return need, &startError{ErrImagePull, err.Error()}
	}
	if must {
		return p.key.Decide(""), nil
	}
	return need, nil
}

// kept is admitted, and keeps an image that is present from being collected. One that was
// being collected is asked for again.
func (p *imagePull) kept(ctx context.Context, need plan.ImageNeed) (plan.ImageNeed, error) {
	need, err := p.admitted(ctx, need)
	if err != nil || need.Use != plan.ImagePresent {
		return need, err
	}
	if there, err := p.access.Use(ctx, need.Ref); there || err != nil {
		return need, err
	}
	if need, err = p.ask(ctx); err != nil {
		return need, err
	}
	return p.admitted(ctx, need)
}

// pull pulls the image unless an earlier failure holds it back.
func (p *imagePull) pull(ctx context.Context) (string, error) {
	key := fmt.Sprintf("%s_%s", p.pod.UID, p.key.Image)
	if p.backoff.IsInBackOffSinceUpdate(key, p.backoff.Clock.Now()) {
		message := fmt.Sprintf("Back-off pulling image %q", p.key.Image)
		p.event(corev1.EventTypeNormal, "BackOff", message)
		if last := p.recall(); last != "" {
			message += ": " + last
		}
		return "", &startError{ErrImagePullBackOff, message}
	}
	p.remember("")
	if err := p.access.Prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", p.pullFailed(key, err)
	}
	if p.begins != nil {
		p.begins()
	}
	p.event(corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", p.key.Image))
	asked := time.Now()
	ref, took, err := p.pullNow(ctx)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", p.pullFailed(key, err)
	}
	p.backoff.GC()
	p.event(corev1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.", p.key.Image,
			took.Truncate(time.Millisecond), time.Since(asked).Truncate(time.Millisecond), p.size(ctx, ref)))
	return ref, nil
}

// pullNow pulls as soon as there is room among the pulls at one time.
func (p *imagePull) pullNow(ctx context.Context) (ref string, took time.Duration, err error) {
	if own := p.turn(); own != nil {
		select {
		case own <- struct{}{}:
		case <-ctx.Done():
			return "", 0, ctx.Err()
		}
		defer func() { <-own }()
	}
	leave, err := p.room.enter(ctx, p.pod.Namespace)
	if err != nil {
		return "", 0, err
	}
	defer leave()
	begun := time.Now()
	ref, err = p.access.Pull(ctx, func(ctx context.Context, login *images.Login) (string, error) {
		return p.runtime.PullImage(ctx, p.image, p.pod, login)
	})
	return ref, time.Since(begun), err
}

// turn is what pulls ahead of kills of one pod wait for, nil for a start: it waits for none of them.
func (p *imagePull) turn() chan struct{} {
	if p.begins == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.aheads[p.pod.UID]
	if own == nil {
		own = make(chan struct{}, 1)
		p.aheads[p.pod.UID] = own
	}
	return own
}

func (p *imagePull) pullFailed(key string, err error) error {
	p.event(corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %s", p.key.Image, runtimeerror.Text(err)))
	p.backoff.Next(key, p.backoff.Clock.Now())
	failure := pullError(p.key.Image, runtimeerror.Text(err))
	p.remember(failure.Error())
	return failure
}

// pullError gives a pull's failure the reason it stands for. (kubelet
// images/image_manager.go:evalCRIPullErr)
func pullError(image, words string) *startError {
	for reason, why := range map[error]string{
		ErrRegistryUnavailable:  "the registry is unavailable",
		ErrSignatureUnvalidated: "the signature validation failed",
	} {
		if detail, ok := strings.CutPrefix(words, reason.Error()); ok {
			return &startError{reason, fmt.Sprintf("image pull failed for %s because %s%s", image, why, detail)}
		}
	}
	return &startError{ErrImagePull, words}
}

func (p *imagePull) size(ctx context.Context, ref string) uint64 {
	sizer, ok := p.runtime.(ImageSizer)
	if !ok {
		return 0
	}
	size, err := sizer.ImageSize(ctx, ref)
	if err != nil {
		return 0
	}
	return size
}

func (p *imagePull) event(eventtype, reason, message string) {
	path := ""
	if p.container != "" {
		path = podspec.FieldPath(p.pod, p.container)
	}
	p.events.Event(p.pod, path, eventtype, reason, message)
}

func (p *imagePull) remember(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if message == "" {
		delete(p.lastError[p.pod.UID], p.key.Image)
		return
	}
	if p.lastError[p.pod.UID] == nil {
		p.lastError[p.pod.UID] = map[string]string{}
	}
	p.lastError[p.pod.UID][p.key.Image] = text.Cut(message, maxResultMessage)
}

func (p *imagePull) recall() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastError[p.pod.UID][p.key.Image]
}

// forget drops what is remembered about a pod.
func (m *imageManager) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.lastError, uid)
	delete(m.aheads, uid)
	m.backoff.GC()
}
