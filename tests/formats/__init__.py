"""Repository files: what two programs' libraries wrote, files made by hand, and files with anything wrong in them."""
