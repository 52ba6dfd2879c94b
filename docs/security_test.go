// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// security.md has a row with a reason for each rule of each role, and no other.
func TestSecurityHasEachRule(t *testing.T) {
	text, err := os.ReadFile("security.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	section := ""
	for line := range strings.Lines(string(text)) {
		if title, found := strings.CutPrefix(line, "### "); found {
			section = strings.TrimSpace(title)
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| `") || len(cells) != 3 || section == "" {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		documented[section+": "+cells[0]+": "+cells[1]] = cells[2]
	}
	for _, rule := range configuredRules(t) {
		if documented[rule] == "" {
			t.Errorf("security.md has no row with a reason for %s", rule)
		}
		delete(documented, rule)
	}
	for rule := range documented {
		if strings.HasPrefix(rule, "managedworkload-") {
			t.Errorf("no role has what security.md says of %s", rule)
		}
	}
}

// configuredRules are the rules of config/, a line for each resource.
func configuredRules(t *testing.T) (rules []string) {
	t.Helper()
	var files []string
	for _, pattern := range []string{"rbac/*.yaml", "components/*/*.yaml"} {
		found, err := filepath.Glob(filepath.Join("..", "config", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		content, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close() //nolint:errcheck // read only
		for decoder := yaml.NewYAMLOrJSONDecoder(content, 4096); ; {
			var role rbacv1.Role // a ClusterRole has the same fields
			err := decoder.Decode(&role)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if role.Kind == "Role" || role.Kind == "ClusterRole" {
				rules = append(rules, rulesOf(&role)...)
			}
		}
	}
	if len(rules) == 0 {
		t.Fatal("config/ has no roles")
	}
	return rules
}

func rulesOf(role *rbacv1.Role) (rules []string) {
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name := "`" + strings.TrimSuffix(resource+"."+group, ".") + "`"
				if len(rule.ResourceNames) > 0 {
					name += " named `" + strings.Join(rule.ResourceNames, "`, `") + "`"
				}
				if role.Kind == "Role" {
					name += " in its own namespace"
				}
				rules = append(rules, role.Name+": "+name+": "+strings.Join(slices.Sorted(slices.Values(rule.Verbs)), ", "))
			}
		}
	}
	return rules
}
