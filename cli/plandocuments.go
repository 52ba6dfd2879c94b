// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// document is an object of a file.
type document struct {
	metav1.TypeMeta `json:",inline"`
	// Items are those of a list.
	Items []json.RawMessage `json:"items"`
	data  []byte
	// where is its place in the file: "document 2, item 1".
	where string
}

// documents are the objects of a file, also those of lists, but no empty ones. (kubectl apply
// takes the same.)
func documents(data []byte) ([]document, error) {
	var all []document
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		found, err := documentsOf(text, fmt.Sprintf("document %d", n))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
}

// documentsOf is one object, its items if it is a list, and none where there are only
// comments.
func documentsOf(data []byte, where string) ([]document, error) {
	var content any
	if err := yaml.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if content == nil {
		return nil, nil
	}
	d := document{data: data, where: where}
	if err := yaml.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if d.Kind != "List" && d.Kind != "ManagedWorkloadList" {
		return []document{d}, nil
	}
	var all []document
	for i, item := range d.Items {
		found, err := documentsOf(item, fmt.Sprintf("%s, item %d", where, i+1))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (d *document) isWorkload() bool {
	return d.Kind == "ManagedWorkload" && d.GroupVersionKind().Group == v1alpha1.GroupVersion.Group
}

// decode reads a ManagedWorkload, strictly. Its namespace is that of the cluster unless it
// names one.
func (c *cluster) decode(d *document, namespaced bool) (*unstructured.Unstructured, error) {
	typed := &v1alpha1.ManagedWorkload{}
	if err := yaml.UnmarshalStrict(d.data, typed); err != nil {
		return nil, err
	}
	switch {
	case typed.Name == "":
		return nil, errors.New("metadata.name is missing")
	case namespaced && typed.Namespace != "" && typed.Namespace != c.namespace:
		return nil, fmt.Errorf("the namespace from the provided object %q does not match the namespace %q. You must pass '--namespace=%s' to perform this operation",
			typed.Namespace, c.namespace, typed.Namespace)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(d.data, &object.Object); err != nil {
		return nil, err
	}
	if typed.Namespace == "" {
		object.SetNamespace(c.namespace)
	}
	return object, nil
}
