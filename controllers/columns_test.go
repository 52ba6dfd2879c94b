// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// What kubectl get mw shows of a large workload in trouble fits on a terminal of 120
// characters, with the three spaces that kubectl puts between columns.
func TestColumnsFitOnATerminal(t *testing.T) {
	c := newCluster(t)
	mw := c.workload(func(mw *v1alpha1.ManagedWorkload) {
		mw.Name, mw.Spec.Template.Spec.NodeSelector = "node-local-dns-cache", map[string]string{"no": "node"}
	})
	await(c, mw, "seen", func(mw *v1alpha1.ManagedWorkload) bool { return mw.Status.ObservedGeneration == mw.Generation })
	table := &metav1.Table{}
	err := restClient(t).Get().AbsPath("apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, "namespaces", c.namespace, "managedworkloads", mw.Name).
		SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").Do(t.Context()).Into(table)
	c.must(err)
	large := map[string]string{
		"Desired": "5000", "Updated": "4999", "Ready": "4999", "Forced": "1234",
		"Status": "updating 4999/5000; 12 nodes not responding", "Age": "365d",
	}
	width := 0
	for i, column := range table.ColumnDefinitions {
		if column.Priority > 0 {
			continue
		}
		cell := fmt.Sprint(table.Rows[0].Cells[i])
		if text, isLarge := large[column.Name]; isLarge {
			cell = text
		}
		if width > 0 {
			width += 3
		}
		width += max(len(column.Name), len(cell))
	}
	if width > 120 {
		t.Errorf("%d characters", width)
	}
}

func restClient(t *testing.T) *rest.RESTClient {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(apiKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.GroupVersion, config.NegotiatedSerializer = &v1alpha1.GroupVersion, scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
