// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/runtime/panics"
)

// Files are brought up to date when something has changed, and after this long and up to
// half as much more in any case: tokens are renewed by time. (kubelet: the sync of a pod)
const refreshInterval = time.Minute

// reference is an object that a pod refers to.
type reference struct {
	namespace string
	ref       objects.Ref
}

// Refresh brings the files of all pods up to date that refer to one of these objects. It
// does not wait for it. A volume or source whose files cannot be brought up to date keeps
// what it has, and the loop tries again.
func (m *Manager) Refresh(namespace string, refs []objects.Ref) {
	m.mu.Lock()
	found := false
	for _, ref := range refs {
		for uid := range m.users[reference{namespace, ref}] {
			m.pods[uid].stale, found = true, true
		}
	}
	m.mu.Unlock()
	if found {
		m.kick()
	}
}

// RefreshTokens brings the files of all pods up to date that ask for tokens: those that
// there are may not be valid any more. It does not wait for it.
func (m *Manager) RefreshTokens() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pods {
		if p.shown != nil && len(objects.Tokens(&p.shown.Spec)) > 0 {
			p.stale = true
		}
	}
	m.kick()
}

// RefreshPod brings the files of one pod up to date. It does not wait for it.
func (m *Manager) RefreshPod(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.pods[uid]; p != nil && p.shown != nil {
		p.stale = true
		m.kick()
	}
}

// Follow says what a pod is by now, whose containers run: its files follow labels,
// annotations and resources. Volumes that were set up for something else stay as they
// are until WaitForMount. After a restart of the process it is what the loop knows the
// pod by. It waits for nothing and is cheap where nothing has changed.
func (m *Manager) Follow(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[pod.UID]
	if p == nil {
		if !m.hasFiles(pod) || validate(pod) != nil {
			return
		}
		p = m.entry(pod.UID)
	}
	if p.ends || p.followed == pod {
		return
	}
	p.followed = pod
	if p.wanted != nil {
		pod = updated(p.wanted, pod)
	}
	if p.shown != nil && sameFacts(p.shown, pod) {
		return
	}
	if p.wanted != nil {
		p.wanted = pod
	}
	m.show(p, pod)
	if m.hasFiles(pod) {
		p.stale = true
		m.kick()
	}
}

// updated is the pod whose volumes are set up, with what changes without a restart.
func updated(setUp, now *corev1.Pod) *corev1.Pod {
	pod := *setUp
	pod.Labels, pod.Annotations = now.Labels, now.Annotations
	resources := map[string]corev1.ResourceRequirements{}
	for _, list := range [][]corev1.Container{now.Spec.InitContainers, now.Spec.Containers} {
		for i := range list {
			resources[list[i].Name] = list[i].Resources
		}
	}
	for _, list := range []*[]corev1.Container{&pod.Spec.InitContainers, &pod.Spec.Containers} {
		*list = slices.Clone(*list)
		for i := range *list {
			if r, ok := resources[(*list)[i].Name]; ok {
				(*list)[i].Resources = r
			}
		}
	}
	return &pod
}

// sameFacts says that two pods have the same files, as far as the pods go.
func sameFacts(a, b *corev1.Pod) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		sameResources(a.Spec.InitContainers, b.Spec.InitContainers) && sameResources(a.Spec.Containers, b.Spec.Containers) &&
		equality.Semantic.DeepEqual(a.Spec.Volumes, b.Spec.Volumes) &&
		equality.Semantic.DeepEqual(a.Spec.SecurityContext, b.Spec.SecurityContext)
}

func sameResources(a, b []corev1.Container) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Container) bool {
		return x.Name == y.Name && equality.Semantic.DeepEqual(x.Resources, y.Resources)
	})
}

// show keeps the pod whose files are kept up to date, nil for none, and what it refers
// to; mu is held.
func (m *Manager) show(p *podVolumes, pod *corev1.Pod) {
	for _, ref := range p.refs {
		delete(m.users[ref], p.uid)
		if len(m.users[ref]) == 0 {
			delete(m.users, ref)
		}
	}
	p.shown, p.refs, p.refreshAt = pod, nil, time.Time{}
	if pod == nil || !m.hasFiles(pod) {
		p.stale, p.refreshErr, p.notUpdated = false, "", nil
		return
	}
	for _, ref := range objects.Of(&corev1.PodSpec{Volumes: pod.Spec.Volumes}) {
		key := reference{pod.Namespace, ref}
		if m.users[key] == nil {
			m.users[key] = map[types.UID]bool{}
		}
		m.users[key][p.uid] = true
		p.refs = append(p.refs, key)
	}
	p.scheduleRefresh(nil)
}

// hasFiles says that a pod has volumes that show files.
func (m *Manager) hasFiles(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		k := m.kindOf(&v.VolumeSource)
		return k != nil && k.files != 0
	})
}

// refresh brings the files of a pod up to date and keeps what came of it.
func (m *Manager) refresh(ctx context.Context, p *podVolumes, pod *corev1.Pod) {
	var failed []fileError
	err := panics.Contain(m.config.Logger, "the files of pod "+string(p.uid), func() error {
		failed = m.refreshAll(ctx, p, pod)
		return joined(failed)
	})
	m.mu.Lock()
	p.running = false
	if p.shown != nil {
		p.scheduleRefresh(err)
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	isNew := text != p.refreshErr && text != "" && ctx.Err() == nil
	p.refreshErr = text
	before, isSaid := p.notUpdated, false
	if ctx.Err() == nil && p.shown != nil {
		p.notUpdated = p.lasting(failed)
		isSaid = !sameErrors(before, p.notUpdated)
	}
	said := p.notUpdated
	m.mu.Unlock()
	if isNew {
		m.config.Logger.Info("Failed to bring the files of volumes up to date; retrying",
			"namespace", pod.Namespace, "pod", pod.Name, "podUID", p.uid, "reason", text)
	}
	if isSaid {
		m.say(pod, before, said)
	}
	m.kick()
}

// scheduleRefresh puts the next refresh off, longer each time while it fails; mu is held.
func (p *podVolumes) scheduleRefresh(err error) {
	wait := refreshInterval + rand.N(refreshInterval/2) //nolint:gosec // no secret: so that pods do not come at once
	if err == nil {
		p.refreshWait = 0
	} else {
		p.refreshWait = min(max(2*p.refreshWait, firstRetry), refreshInterval)
		wait = min(wait, p.refreshWait)
	}
	p.refreshAt = time.Now().Add(wait)
}

func (m *Manager) refreshAll(ctx context.Context, p *podVolumes, pod *corev1.Pod) (failed []fileError) {
	on := &pass{p: p, pod: pod}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if k := m.kindOf(&volume.VolumeSource); k != nil && k.files != 0 {
			if err := m.refreshFiles(ctx, on, volume, k); err != nil {
				failed = append(failed, fileError{volume.Name, err})
			}
		}
	}
	return failed
}

func (m *Manager) refreshFiles(ctx context.Context, on *pass, volume *corev1.Volume, k *kind) error {
	isSetUp, err := m.isSetUpFor(ctx, on, k, volume)
	if err != nil || !isSetUp {
		return err
	}
	facts := m.gather(ctx, on.pod, volume, m.config.Objects.Token)
	// A subPath must not be looked up while its file is replaced.
	on.p.busy.Lock()
	defer on.p.busy.Unlock()
	return m.renew(ctx, on, volume, k, facts)
}
