// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// tolerance is how far apart two times may be.
const tolerance = 500 * time.Millisecond

// difference is one thing that is not the same on both sides.
type difference struct {
	aspect        string
	kubelet, shim string
	// timed tells that only a time differs; seconds are the kubelet's and the shim's.
	timed   bool
	seconds [2]float64
}

// compare returns everything that differs between two records of a scenario.
func compare(kubelet, shim *record) []difference {
	var all []difference
	if kubelet.failure != shim.failure {
		all = append(all, difference{aspect: "course", kubelet: kubelet.failure, shim: shim.failure})
	}
	all = append(all, compareMaps("journal ", journalTexts(kubelet), journalTexts(shim))...)
	all = append(all, compareMaps("report ", reportTexts(kubelet), reportTexts(shim))...)
	all = append(all, compareMaps("runtime ", lifeTexts(kubelet), lifeTexts(shim))...)
	all = append(all, compareMaps("event ", eventTexts(kubelet), eventTexts(shim))...)
	for i := range max(len(kubelet.states), len(shim.states)) {
		if i >= len(kubelet.states) || i >= len(shim.states) {
			break // the course differs
		}
		k, s := kubelet.states[i], shim.states[i]
		all = append(all, compareMaps("status at "+k.step+": ", statusTexts(kubelet, k), statusTexts(shim, s))...)
	}
	return append(all, compareTimes(kubelet, shim)...)
}

func compareMaps(aspect string, kubelet, shim map[string]string) []difference {
	keys := map[string]bool{}
	for k := range kubelet {
		keys[k] = true
	}
	for k := range shim {
		keys[k] = true
	}
	var all []difference
	for k := range keys {
		if kubelet[k] != shim[k] {
			all = append(all, difference{aspect: aspect + k, kubelet: kubelet[k], shim: shim[k]})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].aspect < all[j].aspect })
	return all
}

// journalTexts are the containers' own words, a key for each container.
func journalTexts(r *record) map[string]string {
	texts := map[string]string{}
	for name, entries := range r.journals {
		var lines []string
		for _, e := range entries {
			lines = append(lines, r.plain(e.text))
		}
		programFirst(lines)
		texts[name] = strings.Join(lines, " | ")
	}
	return texts
}

// programFirst puts the first word of a program before those of its postStart
// hook: nothing orders a container's start and its hook, on either side.
func programFirst(lines []string) {
	for i := range lines {
		for j := i; j > 0 && strings.HasPrefix(lines[j], "started ") && strings.HasPrefix(lines[j-1], "postStart"); j-- {
			lines[j], lines[j-1] = lines[j-1], lines[j]
		}
	}
}

// lifeTexts are the order of the first starts, and each container's exits.
func lifeTexts(r *record) map[string]string {
	texts := map[string]string{}
	var order []string
	for _, l := range r.lives {
		if !slices.Contains(order, l.container) {
			order = append(order, l.container)
		}
		text := fmt.Sprintf("#%d in sandbox %d: exit %d %s", l.attempt, l.sandboxAttempt, l.exitCode, l.reason)
		if l.message != "" {
			text += " " + r.plain(l.message)
		}
		if l.ended.IsZero() {
			text = fmt.Sprintf("#%d in sandbox %d: no end seen", l.attempt, l.sandboxAttempt)
		}
		texts["exits of "+l.container] = strings.TrimPrefix(texts["exits of "+l.container]+"; "+text, "; ")
	}
	texts["start order"] = strings.Join(order, " ")
	return texts
}

// counted are the events whose number is compared; others repeat for as long as
// their cause lasts.
var counted = []string{"Created", "Started", "Killing", "SandboxChanged", "FailedPreStopHook", "FailedPostStartHook"}

// eventTexts have a key for each different event, and how often it came.
func eventTexts(r *record) map[string]string {
	counts := map[string]int32{}
	for _, e := range r.events {
		key := fmt.Sprintf("%s %s %q on %s", e.Type, e.Reason, r.plain(e.Message), e.InvolvedObject.FieldPath)
		counts[key] += max(e.Count, 1)
	}
	texts := map[string]string{}
	for key, n := range counts {
		texts[key] = "sent"
		if slices.Contains(counted, strings.Fields(key)[1]) {
			texts[key] = fmt.Sprintf("sent %d times", n)
		}
	}
	return texts
}

// statusTexts have a key for each field of the status.
func statusTexts(r *record, s state) map[string]string {
	status := s.status.DeepCopy()
	texts := map[string]string{}
	for _, c := range status.Conditions {
		texts["condition "+string(c.Type)] = strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, r.plain(c.Message)))
	}
	texts["phase"] = strings.TrimSpace(fmt.Sprintf("%s %s %s", status.Phase, status.Reason, r.plain(status.Message)))
	texts["qosClass"] = string(status.QOSClass)
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			flatten(r, texts, list[i].Name, list[i])
		}
	}
	return texts
}

// flatten makes a key of each field of a container's status. Identities and
// times are only there or not.
func flatten(r *record, texts map[string]string, name string, status corev1.ContainerStatus) {
	data, err := json.Marshal(status)
	if err != nil {
		texts[name] = err.Error()
		return
	}
	var value map[string]any
	if err := json.Unmarshal(data, &value); err != nil {
		texts[name] = err.Error()
		return
	}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, inner := range v {
				walk(path+"."+key, inner)
			}
		case []any:
			for i, inner := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), inner)
			}
		default:
			texts[path] = leaf(r, path, v)
		}
	}
	walk(name, value)
}

func leaf(r *record, path string, value any) string {
	for _, suffix := range []string{"containerID", "startedAt", "finishedAt"} {
		if strings.HasSuffix(path, suffix) {
			if value == nil {
				return "null"
			}
			return "set"
		}
	}
	return r.plain(fmt.Sprint(value))
}

var (
	hexID   = regexp.MustCompile(`[0-9a-f]{64}`)
	uuid    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	address = regexp.MustCompile(`\b10\.\d+\.\d+\.\d+\b`)
	// tokenVolume has a name that the API server draws in a Pod, and always the same in a template.
	tokenVolume = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}\b`)
	ephemeral   = regexp.MustCompile(`<ip>:\d{5}->`)
)

// plain takes out of a text what names this one workload.
func (r *record) plain(text string) string {
	text = strings.ReplaceAll(text, r.dir, "<dir>")
	text = strings.ReplaceAll(text, r.uid, "<uid>")
	if r.own != "" {
		text = strings.ReplaceAll(text, r.own, "<own>")
	}
	text = tokenVolume.ReplaceAllString(text, "kube-api-access")
	if r.object != "" {
		text = strings.ReplaceAll(text, r.object+"_"+namespace, "<name>")
	}
	text = hexID.ReplaceAllString(text, "<id>")
	text = uuid.ReplaceAllString(text, "<uid>")
	text = address.ReplaceAllString(text, "<ip>")
	return ephemeral.ReplaceAllString(text, "<ip>:<port>->")
}
