// SPDX-License-Identifier: Apache-2.0
// The programs of Kubernetes, and its DNS, in one, so that they are linked once: the first argument says which.
package main

import (
	"fmt"
	"os"

	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kube-apiserver":          func() *cobra.Command { return apiserver.NewAPIServerCommand() },
		"kube-controller-manager": func() *cobra.Command { return controllers.NewControllerManagerCommand() },
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kube-proxy":              func() *cobra.Command { return proxy.NewProxyCommand() },
		"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand() },
		"kubectl":                 func() *cobra.Command { return kubectl.NewDefaultKubectlCommand() },
	}
	if len(os.Args) >= 2 && os.Args[1] == "coredns" {
		os.Args = os.Args[1:]
		coremain.Run()
		return
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: kube PROGRAM ARGUMENTS...")
		os.Exit(2)
	}
	program := commands[os.Args[1]]
	os.Args = os.Args[1:]
	os.Exit(cli.Run(program()))
}
