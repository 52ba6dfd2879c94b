// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
)

// source lists and watches one object. By the field selector a Role with the object's
// name in resourceNames allows it.
type source struct {
	client Reader
	key    apiobjects.Key
	// watchFor is how long a watch lasts at least, and 1.5 times as long at most. The API
	// server asks for the right to watch only when a watch begins.
	watchFor time.Duration
}

var _ toolscache.ListerWatcherWithContext = source{}

// IsWatchListSemanticsUnSupported keeps the reflector from streaming the object: the buffer
// of a watch stays as large as the largest event for as long as the watch lasts, and most
// objects never change.
func (s source) IsWatchListSemanticsUnSupported() bool { return true }

// example is an object of the kind.
func (s source) example() runtime.Object {
	if s.key.Kind == apiobjects.Secret {
		return &corev1.Secret{}
	}
	return &corev1.ConfigMap{}
}

func (s source) selected(options metav1.ListOptions) metav1.ListOptions {
	options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.key.Name).String()
	return options
}

// ListWithContext implements cache.ListerWatcherWithContext. The resourceVersion that is
// asked for is left out: without one the API server answers with the latest.
func (s source) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options = s.selected(options)
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	switch s.key.Kind {
	case apiobjects.ConfigMap:
		return s.client.ConfigMaps(s.key.Namespace).List(ctx, options)
	case apiobjects.Secret:
		return s.client.Secrets(s.key.Namespace).List(ctx, options)
	case apiobjects.ServiceAccount: // the manager may read none
	}
	return nil, fmt.Errorf("%s is no kind of objects for containers", s.key.Kind)
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (s source) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options = s.selected(options)
	options.TimeoutSeconds = new(int64(wait.Jitter(s.watchFor, 0.5).Seconds()))
	switch s.key.Kind {
	case apiobjects.ConfigMap:
		return s.client.ConfigMaps(s.key.Namespace).Watch(ctx, options)
	case apiobjects.Secret:
		return s.client.Secrets(s.key.Namespace).Watch(ctx, options)
	case apiobjects.ServiceAccount: // the manager may read none
	}
	return nil, fmt.Errorf("%s is no kind of objects for containers", s.key.Kind)
}

var errNoContext = errors.New("read an object without a context")

// List implements cache.ListerWatcher.
func (s source) List(metav1.ListOptions) (runtime.Object, error) { return nil, errNoContext }

// Watch implements cache.ListerWatcher.
func (s source) Watch(metav1.ListOptions) (watch.Interface, error) { return nil, errNoContext }
