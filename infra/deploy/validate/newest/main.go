// Command newest validates by the types of a current Kubernetes, of KEDA and of the Prometheus Operator.
package main

import (
	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"

	"tutti/infra/deploy/validate"
)

func main() { validate.Main(keda.AddToScheme, monitoring.AddToScheme) }
