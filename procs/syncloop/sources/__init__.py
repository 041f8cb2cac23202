"""Where pods come from: manifest files, a manifest URL, and the kubelet's own socket (P-1..P-9)."""
