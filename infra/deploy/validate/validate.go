// Package validate decodes Kubernetes manifests strictly by the types of k8s.io/api: a field that there is not, a wrong type or a key that stands twice is
// an error. Its commands are built with one version of these types each: oldest (go.mod) and newest (newest/go.mod).
package validate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Main reads manifests from the standard input. It ends the process: with exit code 1 where it found errors.
func Main(custom ...func(*runtime.Scheme) error) {
	builtIn := []func(*runtime.Scheme) error{
		appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	}
	scheme := runtime.NewScheme()
	for _, add := range append(builtIn, custom...) {
		if err := add(scheme); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	valid, failed := 0, 0
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		if isEmpty(document) {
			continue
		}
		if _, kind, err := decoder.Decode(document, nil, nil); err != nil {
			failed++
			fmt.Printf("%v: %v\n", kind, err)
			continue
		}
		valid++
	}
	fmt.Printf("%d valid, %d wrong\n", valid, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// isEmpty says that a document holds nothing but comments.
func isEmpty(document []byte) bool {
	for _, line := range bytes.Split(document, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}
