// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/objects"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// How long a pull waits for Secrets that may still come, and how often it looks: the
// NodeWorkload may be here before them.
const (
	secretPatience = 5 * time.Second
	secretInterval = 50 * time.Millisecond
)

// Access is a pod's access to an image.
type Access struct {
	m     *Manager
	pod   *corev1.Pod
	image string
	// credentials are those of the pull, once they are known.
	credentials []Credential
}

// MustPull is whether the pod has to pull the image although the runtime has it as ref:
// only the registry can say that it may use it.
func (a *Access) MustPull(ctx context.Context, ref string) (bool, error) {
	a.m.settle(ctx)
	a.m.mu.Lock()
	known := a.m.facts(a.image, ref)
	a.m.mu.Unlock()
	name := withoutTag(a.image)
	v, err := decide(known, name, func() ([]Credential, error) {
		secrets, missing := a.secrets()
		credentials, err := credentialsFor(a.image, secrets)
		return append(credentials, a.unread(missing)...), err
	})
	if v.note != nil {
		a.m.noteGrant(ctx, ref, name, v.note)
	}
	return v.mustPull, err
}

// missingSecret is a pull secret that cannot be retrieved.
type missingSecret struct {
	name string
	err  error
}

// secrets returns the pod's pull secrets.
func (a *Access) secrets() (found []*corev1.Secret, missing []missingSecret) {
	for _, ref := range a.pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue // the API admits it
		}
		var secret *corev1.Secret
		err := errors.New("this node gets no Secrets")
		if a.m.secrets != nil {
			secret, err = a.m.secrets.Secret(a.pod.Namespace, ref.Name)
		}
		if err != nil {
			missing = append(missing, missingSecret{ref.Name, err})
			continue
		}
		found = append(found, secret)
	}
	return found, missing
}

// unread stands for the Secrets that have not been received.
func (a *Access) unread(missing []missingSecret) []Credential {
	var unread []Credential
	for _, s := range missing {
		if errors.Is(s.err, objects.ErrNotReceived) {
			unread = append(unread, Credential{Source: Source{Namespace: a.pod.Namespace, Name: s.name}, unread: true})
		}
	}
	return unread
}

// Prepare finds the credentials for a pull. Secrets that may still come are waited for,
// for a short time. A Secret that cannot be retrieved is reported, and the pull is tried
// without it. (kubelet kubelet_pods.go:getPullSecretsForPod)
func (a *Access) Prepare(ctx context.Context) error {
	secrets, missing, err := a.awaitSecrets(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		var names []string
		for _, s := range missing {
			names = append(names, s.name)
			logr.FromContextOrDiscard(ctx).Info("Cannot retrieve a pull secret; pulling without it", "secret", s.name, "reason", s.err.Error())
		}
		if a.m.events != nil {
			a.m.events.Event(a.pod, "", corev1.EventTypeWarning, "FailedToRetrieveImagePullSecret", fmt.Sprintf(
				"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(names, ", ")))
		}
	}
	a.credentials, err = credentialsFor(a.image, secrets)
	return err
}

func (a *Access) awaitSecrets(ctx context.Context) ([]*corev1.Secret, []missingSecret, error) {
	deadline := time.Now().Add(secretPatience)
	for {
		secrets, missing := a.secrets()
		if len(a.unread(missing)) == 0 || !time.Now().Before(deadline) {
			return secrets, missing, nil
		}
		timer := time.NewTimer(secretInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, nil, ctx.Err()
		}
	}
}

// Pull pulls the image with each of the pod's credentials until one succeeds, without any
// if it has none. It fails if it cannot be recorded that this shim pulls it: the next process
// would take the image for everyone's. (kubelet kuberuntime/kuberuntime_image.go:PullImage)
func (a *Access) Pull(ctx context.Context, pull func(context.Context, *Login) (string, error)) (string, error) {
	if err := a.m.begin(ctx, a.image); err != nil {
		return "", err
	}
	ref, used, err := a.try(ctx, func(ctx context.Context, login *Login) (string, error) {
		ref, err := pull(ctx, login)
		if a.m.runtime != nil && runtimeerror.IsCutOff(err) { // each by itself: the last refusal says nothing of the first attempt
			a.m.noteCutOff(a.image)
		}
		return ref, err
	})
	a.m.end(ctx, a.image, ref, used, err)
	return ref, err
}

func (a *Access) try(ctx context.Context, pull func(context.Context, *Login) (string, error)) (string, *Credential, error) {
	if len(a.credentials) == 0 {
		ref, err := pull(ctx, nil)
		return ref, nil, err
	}
	var failures []error
	for i := range a.credentials {
		ref, err := pull(ctx, &a.credentials[i].Login)
		if err == nil {
			return ref, &a.credentials[i], nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	return "", nil, aggregate(failures)
}

// tagged is the name by which the runtime knows an image of a template.
func tagged(image string) string {
	name, err := podspec.ImageName(image)
	if err != nil {
		return image
	}
	return name
}
