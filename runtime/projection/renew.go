// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"maps"
	"path"

	corev1 "k8s.io/api/core/v1"
)

// Renew returns the files of a projected volume that shows files already, by their paths. A
// source whose files cannot be had keeps those that it shows, all of them: the other sources,
// a token above all, are brought up to date. A path of an object before a source that does not
// name its files may be that one's: it keeps what it shows. What keeps its files is what Files
// returns an error about.
func Renew(pod *corev1.Pod, source *corev1.ProjectedVolumeSource, facts Facts, shown map[string][]byte) map[string]File {
	all, ofObject, unnamed := map[string]File{}, map[string]bool{}, false
	for i := range source.Sources {
		mode := modeOf(source.DefaultMode)
		files, err := facts.part(pod, &source.Sources[i], mode)
		if err == nil {
			maps.Copy(all, files)
			for name := range files {
				ofObject[name] = source.Sources[i].ConfigMap != nil || source.Sources[i].Secret != nil
			}
			continue
		}
		declared, named := declaredFiles(pod, &source.Sources[i], mode)
		if !named {
			unnamed = true
			keep(all, shown, ofObject)
		}
		for name, file := range declared {
			if data, there := shown[name]; there {
				file.Data = data
				all[name] = file
			}
		}
	}
	if !unnamed {
		return all
	}
	// The object itself named the files of such a source: they are those that no other source has.
	for name, data := range shown {
		if _, there := all[name]; !there {
			all[name] = File{Data: data, Mode: modeOf(source.DefaultMode)}
		}
	}
	return all
}

// keep has files show what is shown at those of names that are true.
func keep(files map[string]File, shown map[string][]byte, names map[string]bool) {
	for name, file := range files {
		if data, there := shown[name]; there && names[name] {
			file.Data = data
			files[name] = file
		}
	}
}

// declaredFiles returns the files that a source shows, without their content. named is false
// where the template does not name them.
func declaredFiles(pod *corev1.Pod, part *corev1.VolumeProjection, mode int32) (files map[string]File, named bool) {
	switch {
	case part.ConfigMap != nil:
		return declaredItems(part.ConfigMap.Items, mode)
	case part.Secret != nil:
		return declaredItems(part.Secret.Items, mode)
	case part.ServiceAccountToken != nil:
		return map[string]File{path.Clean(part.ServiceAccountToken.Path): tokenFile(pod, mode)}, true
	case part.DownwardAPI != nil:
		files = map[string]File{}
		for i := range part.DownwardAPI.Items {
			item := &part.DownwardAPI.Items[i]
			files[path.Clean(item.Path)] = File{Mode: either(item.Mode, mode)}
		}
	}
	return files, true
}

func declaredItems(items []corev1.KeyToPath, mode int32) (files map[string]File, named bool) {
	files = make(map[string]File, len(items))
	for _, item := range items {
		files[path.Clean(item.Path)] = File{Mode: either(item.Mode, mode)}
	}
	return files, len(items) > 0
}
