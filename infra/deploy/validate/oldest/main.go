// Command oldest validates by the types of the oldest Kubernetes that the chart takes (Chart.yaml, kubeVersion).
package main

import "tutti/infra/deploy/validate"

func main() { validate.Main() }
