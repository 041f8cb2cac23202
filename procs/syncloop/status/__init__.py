"""The status of a pod as the API shows it: pure functions over what is known of the pod."""
