"""Where stores are mounted: the mounts that the kernel knows, the directories for them, mounting and unmounting."""
