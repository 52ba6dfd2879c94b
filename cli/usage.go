// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

// aggregated is the manager's API of its own, which keeps what nodes use.
func (a *app) aggregated() (rest.Interface, error) {
	config, err := a.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("know the types: %w", err)
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion) // Status, as which errors come
	config.WarningHandler = rest.NewWarningWriter(warnings{terminal.New(a.ErrOut)}, rest.WarningWriterOptions{Deduplicate: true})
	config.APIPath = "/apis"
	config.GroupVersion = &v1alpha1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return client, nil
}

func (a *app) nodeUsages(ctx context.Context) (*v1alpha1.NodeUsageList, error) {
	client, err := a.aggregated()
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.NodeUsageList{}
	return list, missing(client.Get().Resource("nodeusages").Do(ctx).Into(list))
}

// workloadUsages are those of the user's namespace, or of all.
func (a *app) workloadUsages(ctx context.Context, all bool) (*v1alpha1.WorkloadUsageList, error) {
	client, err := a.aggregated()
	if err != nil {
		return nil, err
	}
	namespace, _, err := a.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("find the namespace: %w", err)
	}
	list := &v1alpha1.WorkloadUsageList{}
	return list, missing(client.Get().NamespaceIfScoped(namespace, !all).Resource("workloadusages").Do(ctx).Into(list))
}

// missing says what has to be installed, where that is why usage cannot be read.
func missing(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the API %s does not serve usage: install the component objects (config/components/objects): %w", v1alpha1.GroupVersion, err)
	case apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("the API %s of the component objects does not answer: see `kubectl get apiservice %s.%s` and the manager's log: %w",
			v1alpha1.GroupVersion, v1alpha1.GroupVersion.Version, v1alpha1.GroupVersion.Group, err)
	}
	return fmt.Errorf("read what is used: %w", err)
}
