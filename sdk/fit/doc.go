// Package fit turns recorded outcomes into a profile that meets a budget.
package fit
