// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/cli/terminal"
)

// pageSize is how many objects one request lists.
const pageSize = 500

// cluster is the API server as the user reaches it.
type cluster struct {
	client.WithWatch
	namespace string
}

// connect follows kubectl's flags and environment.
func (a *app) connect() (*cluster, error) {
	config, err := a.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	config.WarningHandler = rest.NewWarningWriter(warnings{terminal.New(a.ErrOut)}, rest.WarningWriterOptions{Deduplicate: true})
	namespace, _, err := a.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("find the namespace: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("know the types: %w", err)
		}
	}
	kube, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return &cluster{kube, namespace}, nil
}

// warnings are those of the API server, made safe to print.
type warnings struct{ p *terminal.Printer }

func (w warnings) Write(text []byte) (int, error) {
	w.p.Printf("%s\n", strings.TrimSuffix(string(text), "\n"))
	return len(text), w.p.Err()
}

// kinds are the types of an argument TYPE/NAME that mean a ManagedWorkload.
var kinds = []string{"mw", "managedworkload", "managedworkloads", "managedworkload.managedworkload.dev", "managedworkloads.managedworkload.dev"}

func isManagedWorkload(kind string) bool { return slices.Contains(kinds, strings.ToLower(kind)) }

func isNodeWorkload(kind string) bool { return kind == "nw" || strings.HasPrefix(kind, "nodeworkload") }

func isDaemonSet(kind string) bool { return kind == "ds" || strings.HasPrefix(kind, "daemonset") }

// nameOf reads the argument NAME or TYPE/NAME.
func nameOf(arg string) (string, error) {
	kind, name, typed := strings.Cut(arg, "/")
	switch {
	case !typed:
		return arg, nil
	case !isManagedWorkload(kind):
		return "", fmt.Errorf("%q is not about a ManagedWorkload: give NAME or mw/NAME", arg)
	}
	return name, nil
}

// get reads a ManagedWorkload by the argument of a command.
func (c *cluster) get(ctx context.Context, arg string) (*v1alpha1.ManagedWorkload, error) {
	name, err := nameOf(arg)
	if err != nil {
		return nil, err
	}
	mw := &v1alpha1.ManagedWorkload{}
	err = c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, mw)
	return mw, err
}

// of selects what belongs to a ManagedWorkload.
func (c *cluster) of(name string) []client.ListOption {
	return []client.ListOption{client.InNamespace(c.namespace), client.MatchingLabels{v1alpha1.LabelWorkload: placement.LabelValue(name)}}
}

// pages lists page by page, and hands each one on.
func (c *cluster) pages(ctx context.Context, list client.ObjectList, page func() error, options ...client.ListOption) error {
	options = append(options, client.Limit(pageSize))
	for next := ""; ; {
		if err := c.List(ctx, list, append(slices.Clip(options), client.Continue(next))...); err != nil {
			return err
		}
		if err := page(); err != nil {
			return err
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// nodeWorkloads reads those of a ManagedWorkload. keep reduces each of them to what is
// needed: thousands of templates do not fit into memory.
func (c *cluster) nodeWorkloads(ctx context.Context, name string, keep func(*v1alpha1.NodeWorkload)) ([]v1alpha1.NodeWorkload, error) {
	var all []v1alpha1.NodeWorkload
	list := &v1alpha1.NodeWorkloadList{}
	err := c.pages(ctx, list, func() error {
		for i := range list.Items {
			keep(&list.Items[i])
			all = append(all, list.Items[i])
		}
		list.Items = nil
		return nil
	}, c.of(name)...)
	if err != nil {
		return nil, fmt.Errorf("list NodeWorkloads: %w", err)
	}
	return all, nil
}

// withoutTemplate keeps what a NodeWorkload reports.
func withoutTemplate(nw *v1alpha1.NodeWorkload) {
	nw.ManagedFields = nil
	nw.Spec = v1alpha1.NodeWorkloadSpec{NodeName: nw.Spec.NodeName}
}

// revisions reads those that a ManagedWorkload controls, the newest first.
func (c *cluster) revisions(ctx context.Context, mw *v1alpha1.ManagedWorkload) ([]v1alpha1.ManagedWorkloadRevision, error) {
	var all []v1alpha1.ManagedWorkloadRevision
	list := &v1alpha1.ManagedWorkloadRevisionList{}
	err := c.pages(ctx, list, func() error {
		for _, r := range list.Items {
			if metav1.IsControlledBy(&r, mw) {
				all = append(all, r)
			}
		}
		list.Items = nil
		return nil
	}, c.of(mw.Name)...)
	if err != nil {
		return nil, fmt.Errorf("list revisions: %w", err)
	}
	slices.SortFunc(all, func(a, b v1alpha1.ManagedWorkloadRevision) int { return int(b.Spec.Revision - a.Spec.Revision) })
	return all, nil
}

// nodesByRevision counts the NodeWorkloads of each revision, by metadata alone.
func (c *cluster) nodesByRevision(ctx context.Context, name string) (map[string]int, error) {
	count := map[string]int{}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeWorkloadList"))
	err := c.pages(ctx, list, func() error {
		for _, nw := range list.Items {
			count[nw.Labels[v1alpha1.LabelRevision]]++
		}
		list.Items = nil
		return nil
	}, c.of(name)...)
	if err != nil {
		return nil, fmt.Errorf("list NodeWorkloads: %w", err)
	}
	return count, nil
}

// share is what why and timeline are about: a ManagedWorkload with its NodeWorkloads, or
// one NodeWorkload alone.
type share struct {
	mw    *v1alpha1.ManagedWorkload
	nodes []v1alpha1.NodeWorkload
}

// find reads the ManagedWorkload of a name, or the NodeWorkload if there is none.
func (c *cluster) find(ctx context.Context, arg string) (share, error) {
	if kind, name, typed := strings.Cut(arg, "/"); typed && isNodeWorkload(kind) {
		return c.findNode(ctx, name)
	}
	mw, err := c.get(ctx, arg)
	if apierrors.IsNotFound(err) && !strings.Contains(arg, "/") {
		if found, errNode := c.findNode(ctx, arg); !apierrors.IsNotFound(errNode) {
			return found, errNode
		}
	}
	if err != nil {
		return share{}, err
	}
	nodes, err := c.nodeWorkloads(ctx, mw.Name, withoutTemplate)
	return share{mw, nodes}, err
}

func (c *cluster) findNode(ctx context.Context, name string) (share, error) {
	nw := v1alpha1.NodeWorkload{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, &nw); err != nil {
		return share{}, err
	}
	return share{nodes: []v1alpha1.NodeWorkload{nw}}, nil
}
