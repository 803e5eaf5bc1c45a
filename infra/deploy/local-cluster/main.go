// Package main is Kubernetes in one binary: the first argument, or the name it is called by, says which part runs.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// A constructor parses and registers flags, so that only that of the chosen part may run.
var parts = map[string]func() *cobra.Command{
	"apiserver":          apiserver.NewAPIServerCommand,
	"controller-manager": manager.NewControllerManagerCommand,
	"scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":            func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"proxy":              proxy.NewProxyCommand,
	"kubectl":            func() *cobra.Command { return kubectl.NewDefaultKubectlCommand() },
}

func main() {
	part := filepath.Base(os.Args[0])
	if _, ok := parts[part]; !ok {
		if len(os.Args) < 2 {
			fmt.Fprintln(os.Stderr, "usage: kubernetes apiserver|controller-manager|scheduler|kubelet|proxy|kubectl|etcd [flags]")
			os.Exit(2)
		}
		part = os.Args[1]
		os.Args = append([]string{part}, os.Args[2:]...)
	}
	if part == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command, ok := parts[part]
	if !ok {
		fmt.Fprintf(os.Stderr, "no part %q\n", part)
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
