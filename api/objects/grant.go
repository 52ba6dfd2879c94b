// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import "fmt"

// GrantTokens returns the commands by which a namespace lets the manager make tokens of one service
// account. subject is the argument of kubectl create rolebinding that names the manager.
func GrantTokens(namespace, account, subject string) string {
	role := "managedworkload-token-" + account
	return fmt.Sprintf("kubectl create role %s --verb=create --resource=serviceaccounts/token --resource-name=%s -n %s && "+
		"kubectl create rolebinding %s --role=%s %s -n %s", role, account, namespace, role, role, subject, namespace)
}
