// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"errors"
	"maps"
	"path"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/managedworkload/managedworkload/api/objects"
)

// File is one file of a volume.
type File struct {
	Data []byte
	// Mode is its permission bits.
	Mode int32
	// Owner is its user; nil is root.
	Owner *int64
}

// Got is what was found out about something, or why it was not.
type Got[T any] struct {
	Value T
	Err   error
}

// Facts are what is known of what a volume refers to. What is not in them is an error.
type Facts struct {
	ConfigMaps map[string]Got[*corev1.ConfigMap]
	Secrets    map[string]Got[*corev1.Secret]
	Tokens     map[objects.Token]Got[string]
	// Allocatable is what a limit is that a container does not have.
	Allocatable corev1.ResourceList
}

// defaultMode is the mode of files where the template does not say.
// (kubernetes pkg/apis/core/v1/defaults.go)
const defaultMode int32 = 0o644

// Files are the files of a volume by their clean paths. Of several sources that have the
// same path, the last wins. Errors have the kubelet's words, and name no content.
func Files(pod *corev1.Pod, volume *corev1.VolumeSource, facts Facts) (map[string]File, error) {
	switch {
	case volume.ConfigMap != nil:
		source := volume.ConfigMap
		return facts.configMap(source.Name, source.Items, modeOf(source.DefaultMode), isTrue(source.Optional))
	case volume.Secret != nil:
		source := volume.Secret
		return facts.secret(source.SecretName, source.Items, modeOf(source.DefaultMode), isTrue(source.Optional))
	case volume.DownwardAPI != nil:
		return facts.downwardAPI(pod, volume.DownwardAPI.Items, modeOf(volume.DownwardAPI.DefaultMode))
	case volume.Projected != nil:
		return facts.projected(pod, volume.Projected)
	}
	return nil, errors.New("its source has no files")
}

// projected puts the sources together; its error names all that fail.
// (volume/projected/projected.go:collectData)
func (f Facts) projected(pod *corev1.Pod, source *corev1.ProjectedVolumeSource) (map[string]File, error) {
	all := map[string]File{}
	var errs []error
	for i := range source.Sources {
		files, err := f.part(pod, &source.Sources[i], modeOf(source.DefaultMode))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		maps.Copy(all, files)
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return nil, err
	}
	return all, nil
}

func (f Facts) part(pod *corev1.Pod, part *corev1.VolumeProjection, mode int32) (map[string]File, error) {
	switch {
	case part.Secret != nil:
		return f.secret(part.Secret.Name, part.Secret.Items, mode, isTrue(part.Secret.Optional))
	case part.ConfigMap != nil:
		return f.configMap(part.ConfigMap.Name, part.ConfigMap.Items, mode, isTrue(part.ConfigMap.Optional))
	case part.DownwardAPI != nil:
		return f.downwardAPI(pod, part.DownwardAPI.Items, mode)
	case part.ServiceAccountToken != nil:
		return f.token(pod, part.ServiceAccountToken, mode)
	}
	return nil, errors.New("one of its sources is not supported")
}

// configMap shows a ConfigMap. (volume/configmap/configmap.go:MakePayload)
func (f Facts) configMap(name string, items []corev1.KeyToPath, mode int32, optional bool) (map[string]File, error) {
	got, known := f.ConfigMaps[name]
	object, err := resolve(got, known, optional)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{}
	if object != nil {
		maps.Copy(data, object.BinaryData)
		for key, text := range object.Data {
			data[key] = []byte(text)
		}
	}
	return pick(data, items, mode, optional, "configmap references non-existent config key: ")
}

// secret shows a Secret. (volume/secret/secret.go:MakePayload)
func (f Facts) secret(name string, items []corev1.KeyToPath, mode int32, optional bool) (map[string]File, error) {
	got, known := f.Secrets[name]
	object, err := resolve(got, known, optional)
	if err != nil {
		return nil, err
	}
	var data map[string][]byte
	if object != nil {
		data = object.Data
	}
	return pick(data, items, mode, optional, "references non-existent secret key: ")
}

// resolve is nil for an optional object that definitely does not exist.
func resolve[T any](got Got[*T], known, optional bool) (*T, error) {
	switch {
	case !known:
		return nil, errors.New("an object that it refers to was not asked for")
	case got.Err != nil && optional && apierrors.IsNotFound(got.Err):
		return nil, nil
	case got.Err != nil:
		return nil, got.Err
	}
	return got.Value, nil
}

// pick takes the keys that items name to their paths; without items every key is a file.
func pick(data map[string][]byte, items []corev1.KeyToPath, mode int32, optional bool, missing string) (map[string]File, error) {
	files := make(map[string]File, len(data))
	if len(items) == 0 {
		for key, content := range data {
			files[path.Clean(key)] = File{Data: content, Mode: mode}
		}
		return files, nil
	}
	for _, item := range items {
		content, there := data[item.Key]
		switch {
		case there:
			files[path.Clean(item.Path)] = File{Data: content, Mode: either(item.Mode, mode)}
		case !optional:
			return nil, errors.New(missing + item.Key)
		}
	}
	return files, nil
}

func modeOf(asked *int32) int32 { return either(asked, defaultMode) }

func either(asked *int32, otherwise int32) int32 {
	if asked == nil {
		return otherwise
	}
	return *asked
}

func isTrue(asked *bool) bool { return asked != nil && *asked }
