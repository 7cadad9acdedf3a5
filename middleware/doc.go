// Package middleware wraps langchaingo models: llms.Model in, llms.Model out.
package middleware
