package sim

import "slices"

// faults are all kinds of faults there are.
func faults() []*fault {
	return slices.Concat(processFaults(), crashPoints(), networkFaults(), brokerFaults(), errorCodes(), diskFaults(), logFaults())
}
