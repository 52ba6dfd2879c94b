// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"regexp"
	"strconv"
	"strings"
)

var requestTotal = regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="([^"]*)",.*subresource="([^"]*)",.*verb="([^"]*)",?.*\} (\S+)$`)

// Requests counts those in kube-apiserver's metrics to some resources, by what a person
// calls them, such as "POST pods" or "PUT nodeworkloads/status".
func Requests(metrics string, resources ...string) (map[string]float64, error) {
	wanted := map[string]bool{}
	for _, r := range resources {
		wanted[r] = true
	}
	counted := map[string]float64{}
	for _, m := range requestTotal.FindAllStringSubmatch(metrics, -1) {
		n, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			return nil, err
		}
		if wanted[m[1]] {
			counted[m[3]+" "+strings.TrimSuffix(m[1]+"/"+m[2], "/")] += n
		}
	}
	return counted, nil
}

var clientRequests = regexp.MustCompile(`(?m)^rest_client_requests_total\{code="([^"]*)",.*method="([^"]*)"\} (\S+)$`)

// ClientRequests counts those that a program of controller-runtime made, by its metrics:
// by method, with the code where it is an error, such as "PUT" or "PUT 409".
func ClientRequests(metrics string) (map[string]float64, error) {
	counted := map[string]float64{}
	for _, m := range clientRequests.FindAllStringSubmatch(metrics, -1) {
		n, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, err
		}
		name := m[2]
		if !strings.HasPrefix(m[1], "2") {
			name += " " + m[1]
		}
		counted[name] += n
	}
	return counted, nil
}

// Since is what was added to counts since they were before.
func Since(before, after map[string]float64) map[string]float64 {
	spent := map[string]float64{}
	for name, n := range after {
		if n != before[name] {
			spent[name] = n - before[name]
		}
	}
	return spent
}
