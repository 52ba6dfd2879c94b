// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// reportOf is where a container leaves what it saw from inside at a moment.
func reportOf(container, moment string) string {
	return journals + "/" + container + "." + moment + ".json"
}

// observer is a main container that reports what it sees, all of the folders included,
// when it starts and when it is ended.
func observer(name string, folders ...string) corev1.Container {
	c := serve(name)
	c.Args = append(append([]string{"seq", "report", reportOf(name, "start")}, folders...), append([]string{",", "serve"}, c.Args[1:]...)...)
	c.Lifecycle = &corev1.Lifecycle{PreStop: execute(append([]string{"report", reportOf(name, "end")}, folders...)...)}
	return c
}

// readReports reads what the containers of a workload reported, by container and moment.
func readReports(dir string) (map[string]map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	reports := map[string]map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var facts map[string]string
		if err := json.Unmarshal(data, &facts); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		reports[strings.TrimSuffix(filepath.Base(file), ".json")] = facts
	}
	return reports, nil
}

// reportTexts have a key for each thing that a container saw.
func reportTexts(r *record) map[string]string {
	texts := map[string]string{}
	for name, facts := range r.reports {
		for key, value := range facts {
			texts[name+": "+r.anonymous(key)] = r.anonymous(value)
		}
	}
	return texts
}

var (
	// version is the name of the folder with one version of a volume's files.
	version = regexp.MustCompile(`\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+`)
	ipv4    = regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}\b`)
)

// anonymous takes out of what a container saw the names of its Pod and node, too. plain does not:
// these are words that a message may have for another reason.
func (r *record) anonymous(text string) string {
	text = version.ReplaceAllString(r.plain(text), "..<time>")
	text = ipv4.ReplaceAllString(text, "<ip>")
	for name, instead := range map[string]string{r.object: "<name>", r.node: "<node>"} {
		if name != "" {
			text = regexp.MustCompile(`(^|[^\w.-])`+regexp.QuoteMeta(name)+`($|[^\w.-])`).ReplaceAllString(text, "${1}"+instead+"${2}")
		}
	}
	return text
}
